// The errors of numbers: predictions by target, and their distribution.
import { rangeOf, type NumberFigures } from "../../../display/evaluation-report.ts";
import { integer, number } from "../../../display/format.ts";

const SIZE = 240;
const MARGIN = 34;

export function Numbers({ title, figures }: { title: string; figures: NumberFigures }) {
  return (
    <section>
      <h2>{title}</h2>
      <dl class="profile-figures">
        <Figure name="Mean error">{number(figures.mean_error)}</Figure>
        <Figure name="Mean absolute error">{number(figures.mae)}</Figure>
        <Figure name="Root mean squared error">{number(figures.rmse)}</Figure>
        <Figure name="R²">{number(figures.r2)}</Figure>
        <Figure name="Largest error">{number(figures.largest_error)}</Figure>
      </dl>
      {Number(figures.r2) < 0 && <p>R² is below 0: predicting the mean of the targets would be better.</p>}
      <div class="evaluation-plots">
        <Scatter figures={figures} />
        <Histogram figures={figures} />
      </div>
    </section>
  );
}

function Scatter({ figures: { points } }: { figures: NumberFigures }) {
  const [low, high] = rangeOf(points);
  const place = (value: number) => ((value - low) / (high - low)) * SIZE;
  return (
    <Plot title="Predictions" x="target" y="prediction" low={low} high={high}>
      <line class="diagonal" x1={0} y1={SIZE} x2={SIZE} y2={0} />
      {points.map(([target, prediction], index) => (
        <circle key={index} class="unit-point faint" cx={place(target)} cy={SIZE - place(prediction)} r={3}>
          <title>target {number(target)}, prediction {number(prediction)}</title>
        </circle>
      ))}
    </Plot>
  );
}

function Histogram({ figures: { histogram } }: { figures: NumberFigures }) {
  const { edges, counts } = histogram;
  const largest = Math.max(...counts);
  const width = SIZE / counts.length;
  return (
    <Plot title="Errors" x="prediction minus target" y="examples" low={edges[0]!} high={edges.at(-1)!}>
      {counts.map((count, index) => {
        const height = (count / largest) * SIZE;
        return (
          <rect key={index} class="unit-bar" x={index * width} y={SIZE - height} width={Math.max(1, width - 1)} height={height}>
            <title>{number(edges[index])} to {number(edges[index + 1])}: {integer(count)}</title>
          </rect>
        );
      })}
    </Plot>
  );
}

interface PlotProps {
  title: string;
  x: string;
  y: string;
  low: number;
  high: number;
  children: preact.ComponentChildren;
}

function Plot({ title, x, y, low, high, children }: PlotProps) {
  const full = SIZE + MARGIN + 8;
  return (
    <figure class="unit-plot">
      <figcaption><h3>{title}</h3></figcaption>
      <svg viewBox={`${-MARGIN} -8 ${full} ${full}`} role="img" aria-label={`${title}: ${y} by ${x}`}>
        <rect class="frame" width={SIZE} height={SIZE} />
        {children}
        <text x={0} y={SIZE + 14} class="start">{number(low, 3)}</text>
        <text x={SIZE} y={SIZE + 14} class="end">{number(high, 3)}</text>
        <text x={SIZE / 2} y={SIZE + 28}>{x}</text>
        <text transform={`translate(-20 ${SIZE / 2}) rotate(-90)`}>{y}</text>
      </svg>
    </figure>
  );
}

function Figure({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}
