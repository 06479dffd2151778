#!/usr/bin/env python3
"""A tenant's program on a GPU, by the CUDA driver's library alone (first GPU; no packages needed).

gpu-tenant.py leave   fills most memory with a secret, prints `there PID BYTES`, and holds it until it is killed
gpu-tenant.py look    takes most memory without writing to it, and prints `BYTES nonzero NUMBER` (blocks of 2 MiB)
"""

import ctypes
import sys
import time

BLOCK = 2 << 20
PIECE = 1 << 30
SECRET = 0x7EA5ED  # "leased"

cuda = ctypes.CDLL("libcuda.so.1")
pointer = ctypes.c_uint64


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code != 0:
        sys.exit(f"{name}: {code}")


def context():
    device, made = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(made), device)
    call("cuCtxSetCurrent", made)


def take():
    """Pieces of 1 GiB, as many as there are."""
    pieces = []
    while True:
        piece = pointer()
        if cuda.cuMemAlloc_v2(ctypes.byref(piece), ctypes.c_size_t(PIECE)) != 0:
            return pieces
        pieces.append(piece.value)


def leave():
    pieces = take()
    for piece in pieces:
        call("cuMemsetD32_v2", pointer(piece), ctypes.c_uint(SECRET), ctypes.c_size_t(PIECE // 4))
    call("cuCtxSynchronize")
    print("there", __import__("os").getpid(), len(pieces) * PIECE, flush=True)
    while True:
        time.sleep(1)


def look():
    pieces = take()
    block, zeros, nonzero = ctypes.create_string_buffer(BLOCK), bytes(BLOCK), 0
    for piece in pieces:
        for offset in range(0, PIECE, BLOCK):
            call("cuMemcpyDtoH_v2", block, pointer(piece + offset), ctypes.c_size_t(BLOCK))
            nonzero += block.raw != zeros
    print(len(pieces) * PIECE, "nonzero", nonzero, flush=True)


if len(sys.argv) != 2 or sys.argv[1] not in ("leave", "look"):
    sys.exit(__doc__)
context()
leave() if sys.argv[1] == "leave" else look()
