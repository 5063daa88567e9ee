// ROC, precision against recall, and how far probabilities hold.
import { className, path, type OutputReport, type Point } from "../../../display/evaluation-report.ts";
import { integer, number, percent } from "../../../display/format.ts";

const SIZE = 240;
const MARGIN = 34;
const COLOURS = 10;

export function Curves({ output }: { output: OutputReport }) {
  const curves = output.curves!;
  return (
    <>
      <UnitPlot title="ROC" x="false positive rate" y="true positive rate" isDiagonal>
        {curves.map((one, index) => <Curve key={one.class} index={index} points={one.roc} title={`${className(output, one.class)}: area ${number(one.auc)}`} />)}
      </UnitPlot>
      <UnitPlot title="Precision and recall" x="recall" y="precision">
        {curves.map((one, index) => (
          <Curve key={one.class} index={index} points={one.precision_recall} title={`${className(output, one.class)}: average precision ${number(one.average_precision)}`} />
        ))}
      </UnitPlot>
      <ul class="curve-names">
        {curves.map((one, index) => (
          <li key={one.class} class={`curve curve-${(index % COLOURS) + 1}`}><i />{className(output, one.class)}</li>
        ))}
      </ul>
    </>
  );
}

export function Calibration({ calibration }: { calibration: NonNullable<OutputReport["calibration"]> }) {
  return (
    <UnitPlot title="Calibration" x="claimed probability" y="share that is right" isDiagonal>
      <path class="unit-curve curve-1" d={path(calibration.bins.map((bin): Point => [bin.confidence, bin.accuracy]), SIZE)} />
      {calibration.bins.map((bin) => (
        <circle key={bin.confidence} class="unit-point" cx={bin.confidence * SIZE} cy={(1 - bin.accuracy) * SIZE} r={4}>
          <title>{integer(bin.examples)} examples: {percent(bin.confidence)} claimed, {percent(bin.accuracy)} right</title>
        </circle>
      ))}
    </UnitPlot>
  );
}

function Curve({ index, points, title }: { index: number; points: Point[]; title: string }) {
  return <path class={`unit-curve curve-${(index % COLOURS) + 1}`} d={path(points, SIZE)}><title>{title}</title></path>;
}

interface UnitPlotProps {
  title: string;
  x: string;
  y: string;
  isDiagonal?: boolean;
  children: preact.ComponentChildren;
}

/** A plot of two shares, from 0 to 1. */
function UnitPlot({ title, x, y, isDiagonal = false, children }: UnitPlotProps) {
  const full = SIZE + MARGIN + 8;
  return (
    <figure class="unit-plot">
      <figcaption><h2>{title}</h2></figcaption>
      <svg viewBox={`${-MARGIN} -8 ${full} ${full}`} role="img" aria-label={`${title}: ${y} by ${x}`}>
        <rect class="frame" width={SIZE} height={SIZE} />
        {isDiagonal && <line class="diagonal" x1={0} y1={SIZE} x2={SIZE} y2={0} />}
        {children}
        <text x={0} y={SIZE + 14} class="start">0</text>
        <text x={SIZE} y={SIZE + 14} class="end">1</text>
        <text x={SIZE / 2} y={SIZE + 28}>{x}</text>
        <text x={-6} y={10} class="end">1</text>
        <text transform={`translate(-20 ${SIZE / 2}) rotate(-90)`}>{y}</text>
      </svg>
    </figure>
  );
}
