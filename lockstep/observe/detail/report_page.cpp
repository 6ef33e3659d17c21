// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/detail/html.h"

namespace lockstep::observe {

std::string_view report_style() {
  return R"css(
:root {
  color-scheme: light dark;
  --back: #f6f7f9; --card: #ffffff; --text: #16202c; --quiet: #5b6878; --edge: #e2e6eb;
  --grid: #e9ecf0; --good: 37 99 235; --bad: 220 74 38;
  --c0: #2563eb; --c1: #dc5a1e; --c2: #0d8f6b; --c3: #8b3fd1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #0e131a; --card: #171e28; --text: #e6ebf2; --quiet: #93a1b3; --edge: #283242;
    --grid: #242d3b; --good: 59 130 246; --bad: 239 98 58;
    --c0: #6aa5ff; --c1: #ff9257; --c2: #3fcf9f; --c3: #c58bff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1160px; padding: 28px 20px 60px;
  background: var(--back); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
h1 { margin: 0; font-size: 28px; letter-spacing: -0.02em; }
h2 { margin: 0 0 8px; font-size: 17px; }
h3 { margin: 0; font-size: 15px; }
p { margin: 0; }
.quiet, header p { color: var(--quiet); }
header { margin-bottom: 20px; }
code, pre, .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
main { display: grid; gap: 14px; grid-template-columns: repeat(2, minmax(0, 1fr)); }
.wide { grid-column: 1 / -1; }
.card {
  margin: 0; padding: 16px 18px; background: var(--card);
  border: 1px solid var(--edge); border-radius: 10px;
}
.tiles {
  display: grid; gap: 14px; margin-bottom: 14px;
  grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
}
.tile { padding: 13px 16px; }
.tile span { display: block; color: var(--quiet); font-size: 13px; }
.tile b {
  display: block; font-size: 26px; font-weight: 650; letter-spacing: -0.02em; line-height: 1.25;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
.proof { margin-bottom: 14px; font-size: 13px; overflow-wrap: anywhere; }
.proof p + p { margin-top: 6px; }
figure.card > figcaption {
  display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: baseline; margin-bottom: 12px;
}
figcaption h3 { margin-right: auto; }
.key { font-size: 13px; color: var(--quiet); white-space: nowrap; }
.key b { color: var(--text); font-variant-numeric: tabular-nums; }
.key::before {
  content: ""; display: inline-block; width: 12px; height: 3px; margin-right: 6px;
  border-radius: 2px; vertical-align: 4px; background: currentColor;
}
.key.c0::before { background: var(--c0); } .key.c1::before { background: var(--c1); }
.key.c2::before { background: var(--c2); } .key.c3::before { background: var(--c3); }
.note {
  font-size: 12px; color: var(--quiet); padding: 0 7px;
  border: 1px solid var(--edge); border-radius: 9px;
}
.note.bad { color: rgb(var(--bad)); border-color: rgb(var(--bad)); }
.plot { position: relative; height: 220px; padding: 0 6px 20px 50px; }
.wide .plot { height: 300px; }
.area { position: relative; height: 100%; touch-action: pan-y; cursor: crosshair; }
.area svg { display: block; width: 100%; height: 100%; overflow: hidden; }
.area path { fill: none; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.area .grid { stroke: var(--grid); stroke-width: 1; }
.area .line { stroke-width: 2; }
.area .faint { stroke-width: 1; opacity: 0.25; }
.area .mark { stroke-width: 8; stroke-linecap: round; }
path.c0 { stroke: var(--c0); } path.c1 { stroke: var(--c1); }
path.c2 { stroke: var(--c2); } path.c3 { stroke: var(--c3); }
.x, .y {
  position: absolute; font-size: 12px; line-height: 1; color: var(--quiet); white-space: nowrap;
  font-variant-numeric: tabular-nums; pointer-events: none;
}
.x { top: 100%; margin-top: 7px; transform: translateX(-50%); }
.y { right: 100%; margin-right: 8px; transform: translateY(-50%); }
.axis { text-align: center; color: var(--quiet); font-size: 12px; margin-top: 4px; }
.rule {
  position: absolute; top: 0; bottom: 0; width: 0; display: none;
  border-left: 1px solid var(--quiet); pointer-events: none;
}
.tip {
  position: absolute; top: 6px; z-index: 1; display: none; padding: 6px 10px; font-size: 13px;
  background: var(--card); border: 1px solid var(--edge); border-radius: 7px;
  box-shadow: 0 3px 14px rgb(0 0 0 / 0.16); pointer-events: none; white-space: nowrap;
  font-variant-numeric: tabular-nums;
}
.tip div:first-child { color: var(--quiet); }
.scroll { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.confusion { font-size: 13px; }
.confusion th { padding: 4px 8px; font-weight: 500; color: var(--quiet); white-space: nowrap; }
.confusion tbody th { text-align: right; }
.confusion td {
  min-width: 42px; padding: 6px 6px; text-align: center; border: 2px solid var(--card);
  border-radius: 6px;
}
.confusion .right { background: rgb(var(--good) / calc(var(--p) * 0.92)); }
.confusion .right.full { color: #ffffff; font-weight: 600; }
.confusion .wrong { background: rgb(var(--bad) / calc(var(--p) * 0.9)); }
.confusion .none { color: var(--edge); }
.confusion .sum { color: var(--quiet); padding-left: 10px; }
.chips { list-style: none; margin: 6px 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: 6px; }
.chips li { padding: 2px 10px; border: 1px solid var(--edge); border-radius: 12px; font-size: 13px; }
.pictures {
  display: grid; gap: 10px; margin: 8px 0 16px;
  grid-template-columns: repeat(auto-fill, minmax(84px, 1fr));
}
.pictures figure { margin: 0; }
.pictures img {
  display: block; width: 100%; aspect-ratio: 1; object-fit: contain; image-rendering: pixelated;
  border-radius: 6px; border: 2px solid rgb(var(--good) / 0.5); background: #000000;
}
.pictures .wrong img { border-color: rgb(var(--bad)); }
.pictures figcaption {
  font-size: 12px; line-height: 1.3; margin-top: 4px; overflow-wrap: anywhere;
}
.pictures i { color: var(--quiet); font-style: normal; }
.pictures s { color: var(--quiet); text-decoration: none; }
.pictures s::before { content: "is "; }
.sample {
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 10px 0 0; padding: 12px 14px;
  background: var(--back); border-radius: 8px; font-size: 13.5px; line-height: 1.5;
}
.sample b { color: var(--c0); font-weight: 600; }
.config { width: 100%; font-size: 13px; }
.config td { padding: 4px 14px 4px 0; border-top: 1px solid var(--grid); vertical-align: top; }
.config td:first-child { color: var(--quiet); width: 1%; white-space: nowrap; }
.config td:last-child { overflow-wrap: anywhere; }
@media (max-width: 760px) {
  body { padding: 18px 12px 40px; }
  main { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 10px; }
  .wide .plot, .plot { height: 220px; }
  .card { padding: 14px; }
}
@media print { body { max-width: none; } .card { break-inside: avoid; } }
)css";
}

std::string_view report_script() {
  return R"js(
'use strict';
const near = (points, x) => {
  let a = 0, b = points.length - 1;
  while (b - a > 1) {
    const middle = (a + b) >> 1;
    if (points[middle][0] > x) b = middle; else a = middle;
  }
  return Math.abs(points[a][0] - x) > Math.abs(points[b][0] - x) ? points[b] : points[a];
};
const row = text => {
  const line = document.createElement('div');
  line.textContent = text;
  return line;
};
for (const plot of document.querySelectorAll('.plot')) {
  const data = JSON.parse(plot.dataset.chart);
  const area = plot.querySelector('.area'), rule = plot.querySelector('.rule');
  const tip = plot.querySelector('.tip');
  area.addEventListener('pointermove', event => {
    const box = area.getBoundingClientRect();
    const x = data.x0 + (event.clientX - box.left) / box.width * (data.x1 - data.x0);
    const found = data.series.map(series => [series.name, near(series.points, x)]);
    const at = found.map(([, point]) => point).reduce(
        (best, point) => Math.abs(best[0] - x) > Math.abs(point[0] - x) ? point : best)[0];
    const place = (at - data.x0) / (data.x1 - data.x0);
    rule.style.left = 100 * place + '%';
    tip.replaceChildren(row(data.x + ' ' + at), ...found.map(([name, point]) =>
        row(name + '  ' + point[1] + (point[0] === at ? '' : ' (' + data.x + ' ' + point[0] + ')'))));
    rule.style.display = tip.style.display = 'block';
    const left = box.left - plot.getBoundingClientRect().left + place * box.width;
    const right = left + tip.offsetWidth + 24 > plot.clientWidth;
    tip.style.left = Math.max(0, right ? left - tip.offsetWidth - 12 : left + 12) + 'px';
  });
  area.addEventListener('pointerleave', () => {
    rule.style.display = tip.style.display = 'none';
  });
}
)js";
}

}  // namespace lockstep::observe
