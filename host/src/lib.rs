//! Drives a device: opens a GPU or the CPU, creates a heap on it, launches kernels and reads back occupancy
