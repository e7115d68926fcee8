"""Sums of numbers that each rank draws, by MPI and by numpy. With the argument `die` one rank ends
itself in the middle."""

import os
import signal
import sys

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def drawn(rank, count):
    return numpy.random.default_rng(1000 + rank).standard_normal(count)


for count in (1, 1000, 1 << 17, 1 << 20):
    result = numpy.empty(count)
    comm.Allreduce(drawn(rank, count), result, op=MPI.SUM)
    expected = sum(drawn(other, count) for other in range(size))
    assert numpy.allclose(result, expected, rtol=1e-12, atol=1e-12), (rank, count)
    if "die" in sys.argv and rank == 1 and count > 1000:
        print("rank 1 ends itself in the middle", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if rank == 0:
    print(f"{size} ranks have the sums that numpy has")
