// Parallel coordinates: an axis for each column, a line for each run.
import type { Axis, Height } from "../display/parallel-coordinates.ts";

const PLOT_PX = 900;
const AXIS_DISTANCE_PX = { min: 150, max: 360 } as const;
const HEIGHT_PX = 240;
const MARGIN_PX = { top: 40, bottom: 16, left: 110, right: 110 } as const;
const MAX_LABEL = 24;

export interface PlottedRun {
  key: string | number;
  title: string;
  heights: readonly Height[];
  /** From 0, the worst of the runs, to 1, the best; null if it is unknown. */
  quality: number | null;
  isBest: boolean;
  /** Drawn dashed. */
  isPartial?: boolean;
  onOpen?: () => void;
}

export function ParallelPlot({ axes, runs, label }: { axes: readonly Axis[]; runs: readonly PlottedRun[]; label: string }) {
  const distance = Math.min(Math.max(PLOT_PX / Math.max(1, axes.length - 1), AXIS_DISTANCE_PX.min), AXIS_DISTANCE_PX.max);
  const x = (index: number) => MARGIN_PX.left + index * distance;
  return (
    <div class="scroll parallel" tabIndex={0} role="region" aria-label={label}>
      <svg
        width={x(axes.length - 1) + MARGIN_PX.right}
        height={HEIGHT_PX}
        role="img"
        aria-label={`Parallel coordinates of ${runs.length} runs over ${axes.map((axis) => axis.label).join(", ")}`}
      >
        {runs.map((run) => <RunLine key={run.key} run={run} x={x} />)}
        {axes.map((axis, index) => <AxisLine key={axis.label} axis={axis} x={x(index)} isLast={index === axes.length - 1} />)}
      </svg>
    </div>
  );
}

/** From the colour of the worst run to that of the best one. */
export function qualityColour(quality: number | null): string {
  if (quality === null) return "var(--line-strong)";
  return `color-mix(in oklab, var(--curve-1) ${Math.round(100 * quality)}%, var(--curve-2))`;
}

function AxisLine({ axis, x, isLast }: { axis: Axis; x: number; isLast: boolean }) {
  const side = isLast ? { x: x + 8, anchor: "start" } as const : { x: x - 8, anchor: "end" } as const;
  return (
    <g>
      <line class="axis" x1={x} x2={x} y1={yOf(0)} y2={yOf(1)} />
      <text class="label" x={x} y={MARGIN_PX.top - 18} text-anchor="middle"><title>{axis.label}</title>{shortened(axis.label)}</text>
      {axis.ticks.map((tick) => (
        <text key={tick.text} x={side.x} y={yOf(tick.at)} dy="0.35em" text-anchor={side.anchor}><title>{tick.text}</title>{tick.text.slice(0, MAX_LABEL / 2)}</text>
      ))}
    </g>
  );
}

function RunLine({ run, x }: { run: PlottedRun; x: (index: number) => number }) {
  const points = run.heights.map((height, index) => `${x(index)},${yOf(height)}`).join(" ");
  return (
    <polyline class={`run${run.isBest ? " best" : ""}${run.isPartial ? " partial" : ""}`} points={points} stroke={qualityColour(run.quality)} onClick={run.onOpen}>
      <title>{run.title}</title>
    </polyline>
  );
}

function yOf(height: number): number {
  return HEIGHT_PX - MARGIN_PX.bottom - height * (HEIGHT_PX - MARGIN_PX.top - MARGIN_PX.bottom);
}

/** The end of a long path says more than its beginning. */
function shortened(path: string): string {
  return path.length <= MAX_LABEL ? path : `…${path.slice(1 - MAX_LABEL)}`;
}
