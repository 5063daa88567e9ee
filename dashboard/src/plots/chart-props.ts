// The properties of a plot, and the space beside its canvas.
import type { Curve } from "./curves.ts";
import type { ComponentChildren } from "preact";
import type { Limits } from "./settings/settings.ts";
import type { StepRange } from "./skip-markers.ts";

export const Y_AXIS_PX = 64;
export const RIGHT_PADDING_PX = 14;

export interface ChartProps {
  title: string;
  x: readonly number[];
  curves: readonly Curve[];
  range: StepRange;
  isLossScale: boolean;
  isLogarithmic: boolean;
  /** The limits of the y axis that a person typed. */
  limits?: Limits | undefined;
  /** The x of skipped steps, marked at the lower edge. */
  skips?: readonly number[];
  /** False where one legend serves several plots. */
  showsLegend: boolean;
  /** Of many curves: thin lines, of which the one under the cursor stands out in all plots. */
  isDense?: boolean;
  /** Plots of one group share their cursor. */
  cursorGroup: string;
  formatX: (value: number) => string;
  formatValue: (value: number | null) => string;
  onZoom: (range: StepRange) => void;
  onReset: () => void;
  /** Items of the plot's menu; those that save it are added. */
  menu?: ComponentChildren;
  /** The begin of the names of saved files, and the name of x in them. */
  exportName: string;
  xTitle: string;
}
