// The answer of a search: the best values, all runs as lines over the parameters, and what mattered.
import { routeHref } from "../../router.ts";
import type { SearchAnswer, SearchRun } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { integer, number, percent } from "../../display/format.ts";
import { bestFirst, parallelCoordinates, type Axis, type RunLine } from "../../display/parallel-coordinates.ts";
import { SpecSections } from "./precision.tsx";

const PLOT_PX = 900;
const AXIS_DISTANCE_PX = { min: 150, max: 360 } as const;
const HEIGHT_PX = 240;
const MARGIN_PX = { top: 40, bottom: 16, left: 110, right: 110 } as const;
const MAX_LABEL = 24;
const BAR_PX = 160;

export function SearchResult({ answer }: { answer: SearchAnswer }) {
  return (
    <>
      <p class="callout good"><strong>{answer.summary}</strong></p>
      <SpecSections sections={answer.write} />
      <h2>Runs over the parameters</h2>
      <Lines answer={answer} />
      <p class="muted">
        A line is a run; its colour goes from <span class="run-key worst" /> the worst to <span class="run-key best" /> the
        best <code>{answer.metric}</code> ({answer.higher_is_better ? "higher" : "lower"} is better). Dashed runs were stopped
        early or failed. The table below has the same numbers.
      </p>
      {answer.parameters.some((one) => one.importance !== null) && <Importances parameters={answer.parameters} />}
      <h2>Runs</h2>
      <Runs answer={answer} />
      {answer.steps_saved !== null && (
        <p class="muted">Stopping runs early saved {integer(answer.steps_saved)} steps{answer.steps !== null && `; ${integer(answer.steps)} were trained`}.</p>
      )}
    </>
  );
}

function Lines({ answer }: { answer: SearchAnswer }) {
  const { axes, lines } = parallelCoordinates(answer);
  const distance = Math.min(Math.max(PLOT_PX / (axes.length - 1), AXIS_DISTANCE_PX.min), AXIS_DISTANCE_PX.max);
  const x = (index: number) => MARGIN_PX.left + index * distance;
  const label = `Parallel coordinates of ${lines.length} runs over ${axes.map((one) => one.label).join(", ")}`;
  return (
    <div class="scroll parallel" tabIndex={0} role="region" aria-label="Runs over the parameters">
      <svg width={x(axes.length - 1) + MARGIN_PX.right} height={HEIGHT_PX} role="img" aria-label={label}>
        {lines.map((line) => <Line key={line.run.number} line={line} x={x} isBest={line.run.number === answer.best} />)}
        {axes.map((axis, index) => <AxisLine key={axis.label} axis={axis} x={x(index)} isLast={index === axes.length - 1} />)}
      </svg>
    </div>
  );
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

function Line({ line, x, isBest }: { line: RunLine; x: (index: number) => number; isBest: boolean }) {
  const points = line.heights.map((height, index) => `${x(index)},${yOf(height)}`).join(" ");
  const isWhole = line.run.state === "finished";
  return (
    <polyline class={`run${isBest ? " best" : ""}${isWhole ? "" : " partial"}`} points={points} stroke={colourOf(line.quality)}>
      <title>{`Run ${line.run.number}, ${line.run.state}: ${line.run.value === null ? "no metric" : number(line.run.value)}`}</title>
    </polyline>
  );
}

function Importances({ parameters }: { parameters: SearchAnswer["parameters"] }) {
  return (
    <>
      <h2>Importance</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Importance of the parameters">
        <table class="table" aria-label="Importance of the parameters">
          <thead><tr><th scope="col">Parameter</th><th scope="col" class="number">Importance</th><th scope="col">Share</th></tr></thead>
          <tbody>
            {[...parameters].sort((one, other) => (other.importance ?? 0) - (one.importance ?? 0)).map((one) => (
              <tr key={one.path}>
                <th scope="row"><code>{one.path}</code></th>
                <td class="number">{percent(one.importance)}</td>
                <td><svg class="importance" width={BAR_PX} height="12" aria-hidden="true"><rect width={BAR_PX} height="12" /><rect class="share" width={BAR_PX * (one.importance ?? 0)} height="12" /></svg></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted">What distinguishes the best quarter of the runs from all of them. It holds for the values that were searched.</p>
    </>
  );
}

function Runs({ answer }: { answer: SearchAnswer }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Runs of the search">
      <table class="table" aria-label="Runs of the search">
        <thead>
          <tr>
            <th scope="col" class="number">Run</th><th scope="col">State</th><th scope="col" class="number"><code>{answer.metric}</code></th>
            <th scope="col" class="number">Steps</th>
            {answer.parameters.map((one) => <th scope="col" key={one.path}><code>{one.path}</code></th>)}
            <th scope="col">Jobs</th>
          </tr>
        </thead>
        <tbody>{bestFirst(answer).map((run) => <RunRow key={run.number} run={run} answer={answer} />)}</tbody>
      </table>
    </div>
  );
}

function RunRow({ run, answer }: { run: SearchRun; answer: SearchAnswer }) {
  return (
    <tr>
      <th scope="row" class="number">{run.number}</th>
      <td><Badge state={run.state} />{run.number === answer.best && " best"}{run.explanation && <> {run.explanation}</>}</td>
      <td class="number">{number(run.value)}</td>
      <td class="number">{integer(run.steps)}</td>
      {answer.parameters.map((one) => <td key={one.path}><code>{valueText(run.values[one.path])}</code></td>)}
      <td>{run.jobs.map((id, index) => <span key={id}>{index > 0 && ", "}<a href={routeHref(["jobs", id])}>{id}</a></span>)}</td>
    </tr>
  );
}

function yOf(height: number): number {
  return HEIGHT_PX - MARGIN_PX.bottom - height * (HEIGHT_PX - MARGIN_PX.top - MARGIN_PX.bottom);
}

function colourOf(quality: number | null): string {
  if (quality === null) return "var(--line-strong)";
  return `color-mix(in oklab, var(--curve-1) ${Math.round(100 * quality)}%, var(--curve-2))`;
}

function valueText(value: unknown): string {
  return typeof value === "number" ? number(value, 6) : JSON.stringify(value);
}

/** The end of a long path says more than its beginning. */
function shortened(path: string): string {
  return path.length <= MAX_LABEL ? path : `…${path.slice(1 - MAX_LABEL)}`;
}
