# SPDX-License-Identifier: Apache-2.0
"""Loggers of one format."""

import logging
import sys

CRITICAL, ERROR, WARNING, INFO, DEBUG, NOTSET = (
    logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.NOTSET)
_FORMAT = "%(levelname).1s%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d] %(message)s"


def get_logger(name=None, filename=None, filemode=None, level=WARNING):
    """A logger that writes to stderr, or to a file; its handler is added once."""
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_has_format", False):
        logger._has_format = True
        handler = (logging.FileHandler(filename, filemode or "a") if filename
                   else logging.StreamHandler(sys.stderr))
        handler.setFormatter(logging.Formatter(_FORMAT, "%m%d %H:%M:%S"))
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger


getLogger = get_logger
