"""The CNN with PyTorch's DistributedDataParallel over gloo: two processes, one thread each."""

import json
import os
import socket
import statistics
import time

import torch
import torch.distributed
import torch.multiprocessing
from compare.problems import LEARNING_RATE, Cnn, batches
from torch import nn

from peers.torch_loop import cnn

RANKS = 2
WARMUP, REPEATS = 2, 6


def train(rank: int, port: int) -> None:
    """One rank; rank 0 prints the examples of both per second."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS
    )
    model = nn.parallel.DistributedDataParallel(cnn())
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    scaler = torch.amp.GradScaler("cpu")
    loss_function = nn.CrossEntropyLoss()
    x, y = batches(Cnn)
    data = [
        (torch.from_numpy(one).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels).long())
        for one, labels in zip(x, y, strict=True)
    ]
    times = []
    for _ in range(WARMUP + REPEATS):
        torch.distributed.barrier()
        start = time.perf_counter()
        for examples, labels in data:
            optimizer.zero_grad()
            scaler.scale(loss_function(model(examples), labels)).backward()
            scaler.step(optimizer)
            scaler.update()
        times.append(time.perf_counter() - start)
    if rank == 0:
        usual = statistics.median(times[WARMUP:]) / len(data)
        print(json.dumps({"examples_per_s": RANKS * Cnn.BATCH / usual}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()[1]
    torch.multiprocessing.spawn(train, args=(address,), nprocs=RANKS)
