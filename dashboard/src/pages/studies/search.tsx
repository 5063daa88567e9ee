// The answer of a search: the best values, all runs as lines over the parameters, and what mattered.
import { routeHref } from "../../router.ts";
import type { SearchAnswer, SearchRun } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { integer, number, percent } from "../../display/format.ts";
import { ParallelPlot } from "../../components/parallel-plot.tsx";
import { bestFirst, parallelCoordinates } from "../../display/parallel-coordinates.ts";
import { SpecSections } from "./precision.tsx";

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
  const runs = lines.map(({ run, heights, quality }) => ({
    key: run.number,
    title: `Run ${run.number}, ${run.state}: ${run.value === null ? "no metric" : number(run.value)}`,
    heights,
    quality,
    isBest: run.number === answer.best,
    isPartial: run.state !== "finished",
  }));
  return <ParallelPlot axes={axes} runs={runs} label="Runs over the parameters" />;
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

function valueText(value: unknown): string {
  return typeof value === "number" ? number(value, 6) : JSON.stringify(value);
}
