//! Kernels of scatterheap: initialise, stress, replay, and C-callable device functions
