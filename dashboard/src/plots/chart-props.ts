// The properties of a plot, and the space beside its canvas.
import type { Curve } from "./curves.ts";
import type { StepRange } from "./skip-markers.ts";

export const Y_AXIS_PX = 64;
export const RIGHT_PADDING_PX = 14;

export interface ChartProps {
  title: string;
  x: readonly number[];
  curves: readonly Curve[];
  range: StepRange;
  isLossScale: boolean;
  showsXAxis: boolean;
  /** False where one legend serves several plots. */
  showsLegend: boolean;
  /** Plots of one group share their cursor. */
  cursorGroup: string;
  formatX: (value: number) => string;
  formatValue: (value: number | null) => string;
  onZoom: (range: StepRange) => void;
  onReset: () => void;
}
