"""Processes in which no call ever comes back; see `calls.outcome`."""

import os
import time


def sleep(connection, numbers):
    time.sleep(60)


def die(connection, numbers):
    os._exit(1)
