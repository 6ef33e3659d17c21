#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spoken digits: wav files become pictures of their frequencies over time, which a convolutional
net, or an LSTM, tells apart.

python3 spoken_digits.py [--data FOLDER] [--net cnn|lstm] [--steps N] [--voices N]

FOLDER has files DIGIT_SPEAKER_NUMBER.wav, 16 bits, as the Free Spoken Digit Dataset has. Without
one, such files are made by a simple voice: a source of pulses or noise through three resonances,
which move as they do in the words.
"""

import argparse
import os
import tempfile
import wave

import numpy as np

import lockstep as ls
from lockstep import nn, optim

RATE, FRAME, HOP, BANDS, FRAMES = 8000, 256, 80, 32, 64

# Each word is a row of sounds: seconds, three resonances in Hz, and how much of it is noise.
WORDS = [
    [(.08, (300, 2300, 3000), .9), (.10, (350, 2100, 2800), 0), (.16, (450, 900, 2500), 0)],
    [(.08, (350, 700, 2300), 0), (.12, (650, 1100, 2500), 0), (.10, (300, 1500, 2500), .1)],
    [(.05, (300, 1800, 2800), 1), (.22, (320, 900, 2300), 0)],
    [(.07, (400, 1600, 2600), 1), (.06, (350, 1300, 1700), 0), (.20, (280, 2250, 3000), 0)],
    [(.09, (500, 1400, 2400), 1), (.18, (500, 850, 2400), 0), (.08, (420, 1300, 1650), 0)],
    [(.09, (500, 1400, 2400), 1), (.20, (700, 1500, 2500), 0), (.08, (350, 1200, 2300), .5)],
    [(.10, (400, 2500, 3500), 1), (.08, (400, 1950, 2600), 0), (.10, (400, 2500, 3500), 1)],
    [(.10, (400, 2500, 3500), 1), (.10, (550, 1800, 2500), 0), (.12, (450, 1600, 2500), .1)],
    [(.22, (480, 2000, 2700), 0), (.05, (300, 1800, 2800), 1)],
    [(.06, (300, 1500, 2500), .1), (.20, (700, 1500, 2500), 0), (.09, (300, 1500, 2500), .1)],
]


def resonate(source, frequencies, width=90):
    """A filter with one resonance whose frequency moves."""
    radius = np.exp(-np.pi * width / RATE)
    a1 = 2 * radius * np.cos(2 * np.pi * frequencies / RATE)
    a2 = -radius * radius
    out, y1, y2 = np.empty_like(source), 0.0, 0.0
    for i, x in enumerate(source):
        y1, y2 = (1 - radius) * x + a1[i] * y1 + a2 * y2, y1
        out[i] = y1
    return out


def speak(digit, rng):
    """Samples between -1 and 1 of a voice that draws its pitch, its size and its haste."""
    pitch, size, haste = rng.uniform(90, 220), rng.uniform(0.9, 1.15), rng.uniform(0.8, 1.25)
    sounds = [(int(seconds * haste * RATE), np.array(resonances) * size, noise)
              for seconds, resonances, noise in WORDS[digit]]
    ends = np.cumsum([count for count, _, _ in sounds])
    middles = ends - np.array([count for count, _, _ in sounds]) / 2
    time = np.arange(ends[-1])
    track = [np.interp(time, middles, [sound[1][k] for sound in sounds]) for k in range(3)]
    noise = np.interp(time, middles, [sound[2] for sound in sounds])
    phase = np.cumsum(pitch * (1 - 0.2 * time / len(time)) / RATE)
    pulses = np.diff(np.floor(phase), prepend=0.0) * 6
    source = (1 - noise) * pulses + noise * rng.normal(size=len(time)) * 0.5
    sound = sum(resonate(source, frequencies) for frequencies in track)
    sound *= np.minimum(1, np.minimum(time, time[::-1]) / 200)
    sound += rng.normal(size=len(time)) * 0.005
    return 0.9 * sound / np.abs(sound).max()


def write_voices(folder, voices, seed=1):
    """Files as a collection of recordings has them: every voice says every digit."""
    for voice in range(voices):
        for digit in range(10):
            rng = np.random.default_rng([seed, voice, digit])
            samples = (speak(digit, rng) * 32767).astype("<i2")
            with wave.open(os.path.join(folder, f"{digit}_drawn_{voice}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes(samples.tobytes())


def read_wav(path):
    """Samples between -1 and 1 at RATE, of one channel."""
    with wave.open(path, "rb") as file:
        if file.getsampwidth() != 2:
            raise SystemExit(f"{path}: {8 * file.getsampwidth()} bits a sample, expected 16")
        rate, channels = file.getframerate(), file.getnchannels()
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768.0
    samples = samples.reshape(-1, channels).mean(axis=1)
    places = np.arange(0, len(samples), rate / RATE)
    return np.interp(places, np.arange(len(samples)), samples) if rate != RATE else samples


def bands():
    """Triangles on the mel scale, [BANDS, FRAME / 2 + 1]."""
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    centres = 700 * (10 ** (mel / 2595) - 1)
    frequencies = np.fft.rfftfreq(FRAME, 1 / RATE)
    rise = (frequencies - centres[:-2, None]) / np.diff(centres)[:-1, None]
    fall = (centres[2:, None] - frequencies) / np.diff(centres)[1:, None]
    return np.maximum(0, np.minimum(rise, fall))


def features(samples, triangles=bands()):
    """Loudness of each band over time, float32 [1, BANDS, FRAMES]: mean 0, spread 1."""
    samples = np.pad(samples, (0, max(0, FRAME + HOP * (FRAMES - 1) - len(samples))))
    starts = HOP * np.arange(FRAMES)
    pieces = samples[starts[:, None] + np.arange(FRAME)] * np.hanning(FRAME)
    power = np.abs(np.fft.rfft(pieces)) ** 2
    loudness = np.log(triangles @ power.T + 1e-6)
    return ((loudness - loudness.mean()) / (loudness.std() + 1e-6)).astype("float32")[None]


class Recordings(ls.data.Dataset):
    """Files of a folder and their digits; what is computed once is kept."""

    def __init__(self, paths):
        self.paths, self.kept = paths, {}

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        if i not in self.kept:
            self.kept[i] = features(read_wav(self.paths[i]))
        return self.kept[i], int(os.path.basename(self.paths[i]).split("_")[0])


class Ear(nn.Block):
    """Reads the bands moment by moment; the mean of its states decides."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.lstm(64, layout="NTC", bidirectional=True)
        self.scores = nn.dense(10)

    def forward(self, x):
        moments = x.reshape((x.shape[0], BANDS, FRAMES)).transpose((0, 2, 1))
        return self.scores(self.lstm(moments).mean(axis=1))


def make_net(name):
    if name == "lstm":
        return Ear()
    return nn.sequential(
        nn.conv2d(16, 3, padding=1, activation="relu"), nn.max_pool2d(2),
        nn.conv2d(32, 3, padding=1, activation="relu"), nn.max_pool2d(2),
        nn.flatten(), nn.dropout(0.3), nn.dense(64, activation="relu"), nn.dense(10))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a folder of DIGIT_SPEAKER_NUMBER.wav")
    parser.add_argument("--net", choices=("cnn", "lstm"), default="cnn")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--voices", type=int, default=40, help="made where there is no data")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as drawn:
        if not options.data:
            write_voices(drawn, options.voices)
        folder = options.data or drawn
        paths = sorted(os.path.join(folder, name) for name in os.listdir(folder)
                       if name.endswith(".wav"))
        # What has never been heard: the last recording of five.
        test = Recordings([path for path in paths if int(path[:-4].rsplit("_")[-1]) % 5 == 4])
        train = Recordings([path for path in paths if path not in set(test.paths)])
        trainer = ls.Trainer(make_net(options.net), nn.SoftmaxCrossEntropyLoss(),
                             optim.adam(learning_rate=2e-3), global_batch=32, seed=1)
        result = trainer.fit(train, steps=options.steps, validation=test, validation_batch=64)
        seen = trainer.evaluate(test, keep_predictions=True)
    wrong = [f"{path.rsplit('/')[-1]} as {guess}" for path, guess, label in zip(
        test.paths, seen.predictions, seen.labels) if guess != label]
    print(f"{len(train)} recordings, loss {result.train_loss:.4f}, "
          f"accuracy {result.validation.accuracy:.4f} of {len(test)} others")
    if wrong:
        print("heard wrongly:", ", ".join(wrong[:8]))


main()
