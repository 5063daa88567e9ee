// One plot, drawn by uPlot: lines with bands on an x axis. uPlot is created again only when the
// shape of the plot changes; new data are set into the existing one.
import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useObservable } from "../hooks.ts";
import { theme } from "../theme.ts";
import type { ChartProps } from "./chart-props.ts";
import { Menu } from "../components/menu.tsx";
import { ExportItems } from "./export/items.tsx";
import { drawnPlot, drawnValues, uplotOptions, type PlotShape, type Ticks } from "./uplot-options.ts";
import { lastPoint, pointAt, type Curve, type Values } from "./curves.ts";

const LINE_PX = 18;
const CURVES_OF_A_LINE = 2;

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLDivElement>(null);
  const plotRef = useRef<uPlot | null>(null);
  const ticks = useRef<Ticks>({ x: [], y: [] });
  const latest = useRef(props);
  latest.current = props;
  const shown = useObservable(theme);
  const shape: PlotShape = {
    bands: props.curves.map((curve) => curve.low !== null),
    points: props.curves.map((curve) => curve.hasPoints ?? false),
    raws: props.curves.map((curve) => curve.raw !== undefined),
    isLossScale: props.isLossScale,
    isLogarithmic: props.isLogarithmic,
    isDense: props.isDense ?? false,
    cursorGroup: props.cursorGroup,
  };
  // Room for all values, so that the plot stays where it is while they change.
  const lines = props.isDense || props.curves.length <= CURVES_OF_A_LINE ? 1 : Math.ceil(props.curves.length / CURVES_OF_A_LINE);
  const shapeKey = JSON.stringify([shape, shown]);

  // Both effects run before the browser paints: the text and the plots of a range appear together.
  useLayoutEffect(() => {
    const element = host.current!;
    const setReadout = (index: number | null, curve: number | null = null) => {
      if (readout.current) readout.current.textContent = readoutText(latest.current, index, curve);
    };
    const options = uplotOptions(shape, element, () => latest.current, setReadout, ticks.current);
    const plot = new uPlot(options, dataOf(latest.current), element);
    plotRef.current = plot;
    setReadout(null);
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth > 0) plot.setSize({ width: element.clientWidth, height: options.height });
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
      plotRef.current = null;
    };
  }, [shapeKey]);

  useLayoutEffect(() => {
    plotRef.current?.setData(dataOf(props));
    if (readout.current && plotRef.current?.cursor.idx == null) {
      readout.current.textContent = readoutText(props, null);
    }
  }, [props.x, props.curves, props.range[0], props.range[1], props.limits?.[0], props.limits?.[1], props.skips, shapeKey]);

  return (
    <figure class="plot" role="group" aria-label={`Plot of ${props.title}`}>
      <figcaption>
        <div class="plot-head">
          <h2>{props.title}</h2>{" "}
          {props.showsLegend && props.curves.length > 1 && <Legend names={props.curves.map(({ name }) => name)} />}
          {props.curves.some(({ nonFinite }) => nonFinite.size > 0) && <span class="muted">▲ infinite or NaN</span>}
          {props.isLogarithmic && props.curves.some(hasNonPositive) && <span class="muted">without values ≤ 0</span>}
        </div>
        <Menu label={<span aria-hidden="true">⋯</span>} name={`Menu of the plot ${props.title}`}>
          {props.menu}
          <ExportItems props={props} drawn={() => plotRef.current && drawnPlot(plotRef.current, props, ticks.current)} />
        </Menu>
        <div class={`readout ${lines > 1 ? "wraps" : ""}`} style={{ minHeight: `${lines * LINE_PX}px` }} ref={readout} />
      </figcaption>
      <div class="canvas" ref={host} />
    </figure>
  );
}

/** The curves' names with their colours; `titles` are shown on hover. */
export function Legend({ names, titles = names }: { names: readonly string[]; titles?: readonly string[] }) {
  return (
    <>
      {names.map((name, index) => (
        <span key={name} class={`curve curve-${index + 1}`} title={titles[index]}><i aria-hidden="true" />{name}</span>
      ))}
    </>
  );
}

function hasNonPositive({ mean }: Curve): boolean {
  return mean.some((value) => typeof value === "number" && value <= 0);
}

function dataOf({ x, curves, isLogarithmic }: ChartProps): uPlot.AlignedData {
  const rows: Values[] = [];
  for (const { mean, low, high, raw } of curves) {
    if (raw) rows.push(raw);
    rows.push(mean);
    if (low && high) rows.push(high, low);
  }
  for (const [index, row] of rows.entries()) rows[index] = drawnValues(row, isLogarithmic);
  return [x as number[], ...rows];
}

/** The values under the cursor; without a cursor, the last ones. */
function readoutText({ x, curves, isDense, formatValue, formatX }: ChartProps, index: number | null, focused: number | null = null): string {
  const position = index === null ? "last" : formatX(x[index] ?? 0);
  if (isDense && focused === null) return `${curves.length} curves: point at one to see which it is`;
  const shownCurves = isDense && focused !== null ? curves.slice(focused, focused + 1) : curves;
  const values = shownCurves.map((curve) => {
    const at = index === null ? lastPoint(curve) : pointAt(curve, index);
    const nonFinite = curve.nonFinite.get(at);
    // The last value may be NaN, as in the summary of the job, and be one of several at the last point.
    const shown = index === null ? nonFinite ?? curve.mean[at] : curve.mean[at] ?? nonFinite;
    const [mean, low, high] = [shown ?? null, curve.low?.[at], curve.high?.[at] ?? nonFinite];
    const band = low != null && high !== undefined && low !== high ? ` (${formatValue(low)} to ${formatValue(high)})` : "";
    const raw = curve.raw?.[at] == null ? "" : ` (raw ${formatValue(curve.raw[at])})`;
    return (curves.length > 1 ? `${curve.name} ` : "") + formatValue(mean) + raw + band;
  });
  return `${position}: ${values.join(" · ")}`;
}
