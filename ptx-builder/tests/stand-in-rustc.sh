#!/bin/sh
# Answers as rustc does, for the tests of the search for compilers. It is linked to as SYSROOT/bin/rustc; the file
# SYSROOT/version says which version it claims to be.
sysroot=$(dirname "$(dirname "$0")")
case "$1" in
    --version) echo "rustc $(cat "$sysroot/version") (fake)" ;;
    *) echo "$sysroot" ;;
esac
