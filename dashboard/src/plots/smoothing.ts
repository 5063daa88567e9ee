// Exponential smoothing of curves, as TensorBoard and W&B smooth: each value is a weighted mean of all
// values up to it, whose weights fall by a factor with each value.
import type { Curve, Panel, Values } from "./curves.ts";

/** The smoothed values. Gaps stay gaps; the first values weigh no more than any other (no bias to 0). */
export function smooth(values: Values, weight: number): Values {
  let [sum, sumOfWeights] = [0, 0];
  return values.map((value) => {
    if (typeof value !== "number") return value;
    sum = weight * sum + (1 - weight) * value;
    sumOfWeights = weight * sumOfWeights + (1 - weight);
    return sum / sumOfWeights;
  });
}

/** A panel with smoothed curves, each over its raw values; loss scales and evaluations stay exact. */
export function smoothPanel(panel: Panel, weight: number): Panel {
  return weight === 0 || panel.isLossScale ? panel : { ...panel, curves: panel.curves.map((curve) => smoothCurve(curve, weight)) };
}

function smoothCurve(curve: Curve, weight: number): Curve {
  return curve.hasPoints ? curve : { ...curve, mean: smooth(curve.mean, weight), raw: curve.mean, low: null, high: null };
}
