# SPDX-License-Identifier: Apache-2.0
"""The recipes' models in PyTorch: the same layers, sizes and parameter names as lockstep/nn/models."""

import math
from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class Cnn(nn.Module):
    """LeNet and the CIFAR CNN: two of convolution, relu, pool; then two dense layers."""

    def __init__(self, channels, size, width):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.fc1 = nn.Linear(2 * width * (size // 4) ** 2, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class BasicBlock(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or before != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet18(nn.Module):
    """The CIFAR form: a 3x3 stem without max-pool."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for stage, width in enumerate((64, 128, 256, 512), start=1):
            stride = 1 if stage == 1 else 2
            blocks = nn.Sequential(BasicBlock(before, width, stride), BasicBlock(width, width, 1))
            self.add_module(f"layer{stage}", blocks)
            before = width
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class TextLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10000, 128)
        self.lstm = nn.LSTM(128, 256)
        self.fc = nn.Linear(256, 2)

    def forward(self, tokens):
        # oneDNN's and PyTorch's recurrent kernels both want time first.
        _, (hidden, _) = self.lstm(self.embedding(tokens.t()))
        return self.fc(hidden[-1])


class Attention(nn.Module):
    def __init__(self, width, heads, context, causal=True):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        mask = torch.full((context, context), -math.inf if causal else 0.0).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        flat = (batch * self.heads, length, width // self.heads)
        scores = torch.baddbmm(
            self.mask[:length, :length],
            q.reshape(flat),
            k.reshape(flat).transpose(1, 2),
            alpha=1 / math.sqrt(flat[2]),
        )
        y = torch.bmm(torch.softmax(scores, -1), v.reshape(flat))
        y = y.view(batch, self.heads, length, flat[2]).transpose(1, 2).reshape(batch, length, width)
        return self.proj(y)


class FeedForward(nn.Module):
    def __init__(self, width, factor=4, approximate="tanh"):
        super().__init__()
        self.approximate = approximate
        self.fc1 = nn.Linear(width, factor * width)
        self.fc2 = nn.Linear(factor * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate=self.approximate))


class TransformerBlock(nn.Module):
    def __init__(self, width, attention, feed_forward):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = attention
        self.ln2 = nn.LayerNorm(width)
        self.mlp = feed_forward

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class CharGpt(nn.Module):
    def __init__(self, vocabulary=96, width=256, heads=8, context=128, depth=4):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, Attention(width, heads, context), FeedForward(width))
            for _ in range(depth)
        )
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class Vit(nn.Module):
    def __init__(self, classes=10, width=192, heads=6, patches=64, depth=6):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.position = nn.Embedding(patches, width)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, Attention(width, heads, patches, causal=False),
                             FeedForward(width, 2, "none"))
            for _ in range(depth)
        )
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.position.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x).mean(1))


class MatrixFactorization(nn.Module):
    def __init__(self, users=1000, items=500, width=16):
        super().__init__()
        self.user = nn.Embedding(users, width)
        self.item = nn.Embedding(items, width)
        self.user_bias = nn.Embedding(users, 1)
        self.item_bias = nn.Embedding(items, 1)
        self.mean = nn.Parameter(torch.zeros(1))
        for vectors in (self.user, self.item):
            nn.init.normal_(vectors.weight, std=0.1)

    def forward(self, user, item):
        product = (self.user(user) * self.item(item)).sum(-1)
        return product + (self.user_bias(user) + self.item_bias(item)).squeeze(-1) + self.mean


class Dlrm(nn.Module):
    def __init__(self, features=5, rows=(1000, 500, 8, 25), width=8):
        super().__init__()
        self.bottom = nn.ModuleList([nn.Linear(features, 32), nn.Linear(32, width)])
        self.embeddings = nn.ModuleList(nn.Embedding(count, width) for count in rows)
        for embedding in self.embeddings:
            nn.init.normal_(embedding.weight, std=0.1)
        vectors = len(rows) + 1
        pairs = torch.tril_indices(vectors, vectors, offset=-1)
        self.row, self.column = pairs[0], pairs[1]
        self.top = nn.ModuleList(
            [nn.Linear(width + len(self.column), 32), nn.Linear(32, 16), nn.Linear(16, 1)]
        )

    def forward(self, features, *categories):
        x = features
        for layer in self.bottom:
            x = F.relu(layer(x))
        embedded = [embedding(c) for embedding, c in zip(self.embeddings, categories)]
        vectors = torch.stack([x, *embedded], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.row, self.column]
        x = torch.cat([x, products], 1)
        for layer in self.top[:-1]:
            x = F.relu(layer(x))
        return self.top[-1](x).squeeze(1)


def cross_entropy(output, labels):
    """The mean over samples, and over positions where there are several a sample."""
    return F.cross_entropy(output.flatten(0, -2), labels.flatten())


@dataclass
class Recipe:
    model: Callable[[], nn.Module]
    batch: int
    inputs: Callable[[int], torch.Tensor]  # or several of them
    labels: Callable[[int], torch.Tensor]
    image: bool = False
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = cross_entropy


def classes(count):
    return lambda batch: torch.randint(0, count, (batch,))


def sequences(vocabulary, length):
    return lambda batch: torch.randint(0, vocabulary, (batch, length))


def numbers(*ranges):
    """One input for each range."""
    return lambda batch: tuple(torch.randint(0, count, (batch,)) for count in ranges)


def features_and_numbers(features, *ranges):
    return lambda batch: (torch.rand(batch, features), *numbers(*ranges)(batch))


def clicks(batch):
    return torch.randint(0, 2, (batch,)).to(torch.float32)


RECIPES = {
    "mnist-mlp": Recipe(Mlp, 128, lambda n: torch.rand(n, 784), classes(10)),
    "mnist-lenet": Recipe(
        lambda: Cnn(1, 28, 32), 64, lambda n: torch.rand(n, 1, 28, 28), classes(10), True
    ),
    "cifar-cnn": Recipe(
        lambda: Cnn(3, 32, 64), 128, lambda n: torch.rand(n, 3, 32, 32), classes(10), True
    ),
    "cifar-resnet18": Recipe(ResNet18, 32, lambda n: torch.rand(n, 3, 32, 32), classes(10), True),
    "vit-small": Recipe(Vit, 32, lambda n: torch.rand(n, 3, 32, 32), classes(10), True),
    "text-lstm": Recipe(TextLstm, 32, sequences(10000, 100), classes(2)),
    "char-gpt": Recipe(CharGpt, 8, sequences(96, 128), sequences(96, 128)),
    "recsys-mf": Recipe(
        MatrixFactorization, 512, numbers(1000, 500), torch.rand, loss=F.mse_loss
    ),
    "recsys-dlrm": Recipe(
        Dlrm,
        512,
        features_and_numbers(5, 1000, 500, 8, 25),
        clicks,
        loss=F.binary_cross_entropy_with_logits,
    ),
}
