// The uPlot options of one plot.
import uPlot from "uplot";
import type { Curve, Values } from "./curves.ts";
import type { DrawnPlot, Tick } from "./export/svg.ts";
import { tickFormatter } from "./tick-texts.ts";
import { RIGHT_PADDING_PX, Y_AXIS_PX, type ChartProps } from "./chart-props.ts";

/** What cannot change once uPlot has been created. */
export interface PlotShape {
  bands: boolean[];
  /** Of each curve: whether every value is drawn as a point. */
  points: boolean[];
  /** Of each curve: whether it is smoothed, and drawn over its raw values. */
  raws: boolean[];
  isLossScale: boolean;
  isLogarithmic: boolean;
  isDense: boolean;
  cursorGroup: string;
}

/** The labels that uPlot has drawn last. */
export interface Ticks {
  x: readonly Tick[];
  y: readonly Tick[];
}

const PLOT_PX = 150;
const X_AXIS_PX = 30;
const CURVE_COLOURS = 10;
const LOG_PADDING = 1.19; // factor above and below the powers of two
const MAX_GRID_LINES = 5;
const MARKER_PX = 5;
const METRIC_PX = 6;
const SKIP_PX = 9;
const FOCUS_PX = 16;
const UNFOCUSED_ALPHA = 0.15;
const Y_PADDING_SHARE = 0.1;

export function uplotOptions(
  shape: PlotShape,
  element: HTMLElement,
  props: () => ChartProps,
  setReadout: (index: number | null, curve: number | null) => void,
  ticks: Ticks,
): uPlot.Options {
  let focused: number | null = null;
  const { series, bands } = seriesOptions(shape);
  return {
    width: element.clientWidth || 600,
    height: PLOT_PX + X_AXIS_PX,
    padding: [6, RIGHT_PADDING_PX, 6, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => xRange(props()) },
      y: { ...yDistribution(shape), range: (_, low, high) => yRange(shape, props(), low, high) },
    },
    axes: axisOptions(shape, props, ticks),
    series: [{}, ...series],
    bands,
    cursor: {
      y: false,
      sync: { key: shape.cursorGroup, setSeries: shape.isDense },
      ...(shape.isDense ? { focus: { prox: FOCUS_PX } } : {}),
      drag: { x: true, y: false, setScale: false, dist: 4 },
      points: shape.isDense ? { show: false } : { size: 6 },
      bind: {
        dblclick: () => () => {
          props().onReset();
          return null;
        },
      },
    },
    ...(shape.isDense ? { focus: { alpha: UNFOCUSED_ALPHA } } : {}),
    hooks: {
      setCursor: [(plot) => setReadout(plot.cursor.idx ?? null, focused)],
      setSeries: [(plot, row) => {
        focused = row === null ? null : curveOfRow(shape, row);
        setReadout(plot.cursor.idx ?? null, focused);
      }],
      setSelect: [(plot) => onSelect(plot, props)],
      draw: [(plot) => drawSkips(plot, props()), (plot) => drawNonFinite(plot, props()), (plot) => drawBest(plot, props())],
    },
  };
}

function xRange({ range }: ChartProps): uPlot.Range.MinMax {
  return range[1] > range[0] ? [range[0], range[1]] : [range[0], range[0] + 1];
}

function yDistribution({ isLossScale, isLogarithmic }: PlotShape): uPlot.Scale {
  if (isLossScale) return { distr: 3, log: 2 };
  return isLogarithmic ? { distr: 3, log: 10 } : {};
}

/** From the smallest to the largest value with some space, unless a person typed a limit. */
function yRange(shape: PlotShape, { limits = [null, null] }: ChartProps, low: number | null, high: number | null): uPlot.Range.MinMax {
  const isLog = shape.isLossScale || shape.isLogarithmic;
  const [typedLow, typedHigh] = limits.map((limit) => (isLog && limit !== null && limit <= 0 ? null : limit));
  const [autoLow, autoHigh] = low === null || high === null ? [null, null] : autoRange(shape, low, high);
  const [from, to] = [typedLow ?? autoLow, typedHigh ?? autoHigh];
  if (from == null || to == null) return [from ?? null, to ?? null];
  if (from < to) return [from, to];
  const width = isLog ? from : Math.abs(from) || 1;
  return typedHigh == null ? [from, from + width] : isLog ? [to / 2, to] : [to - width, to];
}

function autoRange({ isLossScale, isLogarithmic }: PlotShape, low: number, high: number): uPlot.Range.MinMax {
  if (isLossScale) return [low / LOG_PADDING, high * LOG_PADDING];
  return isLogarithmic ? uPlot.rangeLog(low, high, 10, false) : uPlot.rangeNum(low, high, Y_PADDING_SHARE, true);
}

/** What the y axis can show: a logarithmic one has no place for 0 and negative numbers. */
export function drawnValues(values: Values, isLogarithmic: boolean): Values {
  return isLogarithmic ? values.map((value) => (typeof value === "number" && value <= 0 ? null : value)) : values;
}

/** Zoom to the selection; plots that share the cursor all report the same one. */
function onSelect(plot: uPlot, props: () => ChartProps): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  props().onZoom([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
}

function seriesOptions(shape: PlotShape): { series: uPlot.Series[]; bands: uPlot.Band[] } {
  const series: uPlot.Series[] = [];
  const bands: uPlot.Band[] = [];
  const paths = shape.isLossScale ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {};
  for (const [index, hasBand] of shape.bands.entries()) {
    const stroke = curveColour(index);
    const dash = index >= 4 && !shape.isDense ? [6, 3] : [];
    const points = shape.points[index] && !shape.isDense
      ? { show: hasRoomForPoints, size: METRIC_PX, fill: stroke, filter: shownPoints }
      : { show: false, size: 4, fill: stroke, filter: isolatedPoints };
    if (shape.raws[index]) series.push({ ...paths, stroke: `${stroke}50`, width: 1, points: { show: false } });
    series.push({ ...paths, stroke, width: lineWidth(shape.isDense), dash, points });
    if (!hasBand) continue;
    const edge = { ...paths, stroke: "transparent", width: 0, points: { show: false } };
    const high = series.push(edge, { ...edge }) - 1;
    bands.push({ series: [high, high + 1], fill: `${stroke}38` });
  }
  return { series, bands };
}

/** The curve that a row of the data belongs to; the first row is x. */
function curveOfRow({ bands, raws }: PlotShape, row: number): number | null {
  let last = 0;
  for (const [curve, hasBand] of bands.entries()) {
    last += 1 + (hasBand ? 2 : 0) + (raws[curve] ? 1 : 0);
    if (row <= last) return row === 0 ? null : curve;
  }
  return null;
}

/** Whether the points of a metric do not touch each other. */
function hasRoomForPoints(plot: uPlot, series: number): boolean {
  const count = [...plot.data[series]!].filter((value) => value !== undefined).length;
  return count * METRIC_PX * 1.5 < plot.bbox.width / devicePixelRatio;
}

/** All points if there is room for them, else those that no line leads to. */
function shownPoints(plot: uPlot, series: number, hasRoom: boolean): number[] | null {
  return hasRoom ? null : isolatedPoints(plot, series);
}

/** Points between two gaps: no line leads to them. */
function isolatedPoints(plot: uPlot, series: number): number[] {
  const values = [...plot.data[series]!].map((value, index) => ({ value, index })).filter(({ value }) => value !== undefined);
  return values
    .filter(({ value }, at) => value !== null && values[at - 1]?.value == null && values[at + 1]?.value == null)
    .map(({ index }) => index);
}

/** A triangle at the upper edge wherever a curve is infinite or NaN. */
function drawNonFinite(plot: uPlot, { x, curves }: ChartProps): void {
  const { ctx, bbox } = plot;
  const size = MARKER_PX * devicePixelRatio;
  ctx.save();
  for (const [curve, { nonFinite }] of curves.entries()) {
    ctx.fillStyle = curveColour(curve);
    for (const index of nonFinite.keys()) {
      const at = x[index];
      if (at === undefined) continue;
      const left = plot.valToPos(at, "x", true);
      if (left < bbox.left || left > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left - size, bbox.top + 1.6 * size);
      ctx.lineTo(left + size, bbox.top + 1.6 * size);
      ctx.fill();
    }
  }
  ctx.restore();
}

/** A line at the lower edge wherever a step was skipped. */
function drawSkips(plot: uPlot, { skips = [] }: ChartProps): void {
  const { ctx, bbox } = plot;
  const [width, height] = [2 * devicePixelRatio, SKIP_PX * devicePixelRatio];
  ctx.save();
  ctx.fillStyle = colour("--skip");
  for (const at of skips) {
    const left = plot.valToPos(at, "x", true);
    if (left < bbox.left || left > bbox.left + bbox.width) continue;
    ctx.fillRect(left - width / 2, bbox.top + bbox.height - height, width, height);
  }
  ctx.restore();
}

/** A ring around the point of the best evaluation. */
function drawBest(plot: uPlot, { x, curves }: ChartProps): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const [curve, { best, mean }] of curves.entries()) {
    const at = best === undefined ? undefined : x[best];
    const value = best === undefined ? undefined : mean[best];
    if (at === undefined || value == null) continue;
    const left = plot.valToPos(at, "x", true);
    if (left < bbox.left || left > bbox.left + bbox.width) continue;
    ctx.strokeStyle = curveColour(curve);
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.beginPath();
    ctx.arc(left, plot.valToPos(value, "y", true), MARKER_PX * devicePixelRatio, 0, 2 * Math.PI);
    ctx.stroke();
  }
  ctx.restore();
}

/** The plot as it is drawn now, to be saved. */
export function drawnPlot(plot: uPlot, props: ChartProps, ticks: Ticks): DrawnPlot {
  const { left, top, width, height } = plot.bbox;
  const scale = (pixels: number) => pixels / devicePixelRatio;
  return {
    title: props.title,
    x: props.x,
    curves: props.curves.map((curve, index) => ({ ...drawnCurve(curve, props.isLogarithmic), colour: curveColour(index) })),
    width: plot.width,
    height: plot.height,
    area: { left: scale(left), top: scale(top), width: scale(width), height: scale(height) },
    toLeft: (x) => plot.valToPos(x, "x"),
    toTop: (y) => plot.valToPos(y, "y"),
    isStepped: props.isLossScale,
    lineWidth: lineWidth(props.isDense ?? false),
    showsLegend: props.curves.length > 1 && !props.isDense,
    xTicks: ticks.x,
    yTicks: ticks.y,
    skips: props.skips ?? [],
    colours: { text: colour("--text"), muted: colour("--muted"), grid: colour("--grid"), ground: colour("--surface"), skip: colour("--skip") },
  };
}

function drawnCurve(curve: Curve, isLogarithmic: boolean): Curve {
  const drawn = (values: Values) => drawnValues(values, isLogarithmic);
  const { mean, low, high, raw } = curve;
  return { ...curve, mean: drawn(mean), low: low && drawn(low), high: high && drawn(high), ...(raw && { raw: drawn(raw) }) };
}

function lineWidth(isDense: boolean): number {
  return isDense ? 0.75 : 1.5;
}

function axisOptions(shape: PlotShape, props: () => ChartProps, ticks: Ticks): uPlot.Axis[] {
  const font = `11px ${colour("--font") || "sans-serif"}`;
  const lines = { stroke: colour("--muted"), font, grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
  const labelled = (axis: "x" | "y", values: readonly (number | null)[], text: (value: number) => string) => {
    const texts = values.map((value) => (value === null ? "" : text(value)));
    ticks[axis] = values.flatMap((at, index) => (at === null || texts[index] === "" ? [] : [{ at, text: texts[index]! }]));
    return texts;
  };
  return [
    { ...lines, show: true, size: X_AXIS_PX, values: (_, values) => labelled("x", values, props().formatX) },
    { ...lines, size: Y_AXIS_PX, space: 26, values: (_, values) => labelled("y", values, tickFormatter(values, shape.isLossScale)), ...(shape.isLossScale ? { splits: powerOfTwoTicks, filter: (_, powers) => powers } : {}) },
  ];
}

/** At most six powers of two between minimum and maximum. */
function powerOfTwoTicks(_plot: uPlot, _axis: number, minimum: number, maximum: number): number[] {
  const [first, last] = [Math.ceil(Math.log2(minimum)), Math.floor(Math.log2(maximum))];
  const by = Math.max(1, Math.ceil((last - first) / MAX_GRID_LINES));
  const powers: number[] = [];
  for (let exponent = first; exponent <= last; exponent += by) powers.push(2 ** exponent);
  return powers;
}

function curveColour(index: number): string {
  return colour(`--curve-${(index % CURVE_COLOURS) + 1}`);
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
