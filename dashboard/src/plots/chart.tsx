// One plot, drawn by uPlot: lines with bands on an x axis that it shares with others. What it shows
// is a function of its properties; the drawing lives as long as its shape stays the same.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useCell } from "../cell.ts";
import { theme } from "../theme.ts";
import type { Range } from "./marks.ts";
import { optionsOf, type Shape } from "./options.ts";
import type { Curve, Values } from "./series.ts";

export const AXIS_PX = 64;
export const RIGHT_PX = 14;

export interface ChartProps {
  title: string;
  x: readonly number[];
  curves: readonly Curve[];
  range: Range;
  isLog2: boolean;
  hasAxis: boolean;
  /** Plots with the same one share their cursor. */
  group: string;
  xWords: (value: number) => string;
  words: (value: number | null) => string;
  onZoom: (range: Range) => void;
  onReset: () => void;
}

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLSpanElement>(null);
  const drawing = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shown = useCell(theme);
  const shape: Shape = {
    bands: props.curves.map((curve) => curve.low !== null),
    isLog2: props.isLog2,
    hasAxis: props.hasAxis,
    group: props.group,
  };
  const shapeKey = JSON.stringify([shape, shown]);

  useEffect(() => {
    const element = host.current!;
    const tell = (index: number | null) => {
      if (readout.current) readout.current.textContent = readoutOf(latest.current, index);
    };
    const options = optionsOf(shape, element, () => latest.current, tell);
    const plot = new uPlot(options, dataOf(latest.current), element);
    drawing.current = plot;
    tell(null);
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth > 0) plot.setSize({ width: element.clientWidth, height: options.height });
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
      drawing.current = null;
    };
  }, [shapeKey]);

  useEffect(() => {
    drawing.current?.setData(dataOf(props));
    if (readout.current && drawing.current?.cursor.idx == null) {
      readout.current.textContent = readoutOf(props, null);
    }
  }, [props.x, props.curves, props.range[0], props.range[1], shapeKey]);

  return (
    <figure class="plot" role="group" aria-label={`Plot of ${props.title}`}>
      <figcaption>
        <span>
          <h2>{props.title}</h2>{" "}
          {props.curves.length > 1 && <Names curves={props.curves} />}
        </span>
        <span class="readout" ref={readout} />
      </figcaption>
      <div class="canvas" ref={host} />
    </figure>
  );
}

function Names({ curves }: { curves: readonly Curve[] }) {
  return (
    <>
      {curves.map((curve, index) => (
        <span key={curve.name} class={`curve curve-${index + 1}`}><i aria-hidden="true" />{curve.name}</span>
      ))}
    </>
  );
}

function dataOf({ x, curves }: ChartProps): uPlot.AlignedData {
  const rows: Values[] = [];
  for (const { mean, low, high } of curves) {
    rows.push(mean);
    if (low && high) rows.push(high, low);
  }
  return [x as number[], ...rows];
}

/** The values under the cursor; without one the last that there are. */
function readoutOf({ x, curves, words, xWords }: ChartProps, index: number | null): string {
  const values = curves.map((curve) => {
    const at = index ?? curve.mean.findLastIndex((value) => value !== null);
    const [mean, low, high] = [curve.mean[at] ?? null, curve.low?.[at] ?? null, curve.high?.[at] ?? null];
    const band = low !== null && high !== null && low !== high ? ` (${words(low)} to ${words(high)})` : "";
    return (curves.length > 1 ? `${curve.name} ` : "") + words(mean) + band;
  });
  const place = index === null ? "last" : xWords(x[index] ?? 0);
  return `${place}: ${values.join(" · ")}`;
}
