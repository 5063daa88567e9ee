// The answer of a study that bisects: the layers that need float32, and the runs of the search.
import { routeHref } from "../../router.ts";
import type { BisectAnswer } from "../../api/types.ts";
import { number } from "../../display/format.ts";
import { SpecSections } from "./precision.tsx";

const MAX_PATHS = 4;
/** The products of a layer: forward, input_gradient, weight_gradient. */
const PRODUCTS = 3;

export function BisectResult({ answer }: { answer: BisectAnswer }) {
  return (
    <>
      <p class="callout good"><strong>{answer.summary}</strong></p>
      {answer.layers.length > 0 && <NeededLayers layers={answer.layers} />}
      {answer.layers.length > 0 && <SpecSections sections={answer.write} />}
      <h2>Runs</h2>
      <Runs runs={answer.tried} />
      <p class="muted">
        A run is a job with some layers in float32. It passes if it skips few steps, and
        if <code>{answer.metric}</code> ({answer.higher_is_better ? "higher" : "lower"} is better) is at most
        {" "}{number(answer.noise.half_width)} worse than in float32: so far results of float32 lie apart when only the seed changes.
      </p>
    </>
  );
}

function NeededLayers({ layers }: { layers: BisectAnswer["layers"] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Layers that need float32">
      <table class="table" aria-label="Layers that need float32">
        <thead>
          <tr>
            <th scope="col">Layer</th><th scope="col">Kind</th><th scope="col">In float32</th>
            <th scope="col">Evidence</th><th scope="col">Job</th>
          </tr>
        </thead>
        <tbody>
          {layers.map((one) => (
            <tr key={one.path}>
              <th scope="row"><code>{one.path}</code></th>
              <td>{one.kind}</td>
              <td>{one.roles.length < PRODUCTS ? one.roles.join(", ") : "whole layer"}</td>
              <td>{one.explanation}</td>
              <td><JobLink id={one.job} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Runs({ runs }: { runs: BisectAnswer["tried"] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Runs of the search">
      <table class="table" aria-label="Runs of the search">
        <thead>
          <tr>
            <th scope="col" class="number">Layers</th><th scope="col">In float32</th><th scope="col">Passes</th>
            <th scope="col">Result</th><th scope="col">Job</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((one) => (
            <tr key={one.job}>
              <td class="number">{one.float32.length}</td>
              <td>{shortList(one.float32)}</td>
              <td>{one.passes ? "yes" : "no"}</td>
              <td>{one.explanation}</td>
              <td><JobLink id={one.job} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function JobLink({ id }: { id: string }) {
  return <a href={routeHref(["jobs", id])}>{id}</a>;
}

function shortList(paths: readonly string[]): string {
  const more = paths.length - MAX_PATHS;
  return (paths.slice(0, MAX_PATHS).join(", ") || "none") + (more > 0 ? ` and ${more} more` : "");
}
