// The answer of a study of capacity: the batch sizes that were tried under each policy.
import { routeHref } from "../../router.ts";
import type { CapacityAnswer } from "../../api/types.ts";
import { bytes, estimated, integer, number } from "../../display/format.ts";

export function CapacityResult({ answer }: { answer: CapacityAnswer }) {
  return (
    <>
      <p class="callout good"><strong>{answer.summary}</strong></p>
      <p class="muted">
        Device: {answer.device ?? "not known"}, memory {bytes(answer.device_memory_bytes)}
        {answer.memory_limit_bytes == null ? "" : `; a trainer may allocate ${bytes(answer.memory_limit_bytes)}`}.
      </p>
      {answer.policies.map((one) => (
        <section key={one.policy} class="stack" aria-label={one.policy}>
          <h2><code>{one.policy}</code></h2>
          <p>{one.explanation}</p>
          <dl class="facts">
            <Fact name="Largest batch" value={one.limited_by === "estimate" ? estimated(one.largest_batch) : integer(one.largest_batch)} />
            <Fact name="Smallest that did not fit" value={integer(one.smallest_failed)} />
            <Fact name="Predicted" value={estimated(one.predicted)} />
            <Fact name="Critical batch" value={integer(one.critical_batch)} />
            <Fact name="Limited by" value={one.limited_by} />
          </dl>
          <Batches policy={one} />
        </section>
      ))}
    </>
  );
}

function Batches({ policy }: { policy: CapacityAnswer["policies"][number] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Batch sizes of ${policy.policy}`}>
      <table class="table" aria-label={`Batch sizes of ${policy.policy}`}>
        <thead>
          <tr>
            <th scope="col" class="number">Batch</th><th scope="col">Fits</th><th scope="col" class="number">Examples/s</th>
            <th scope="col" class="number">Peak memory</th><th scope="col">Job</th>
          </tr>
        </thead>
        <tbody>
          {policy.batches.map((one) => (
            <tr key={one.batch_size}>
              <td class="number">{integer(one.batch_size)}</td>
              <td>{one.fits ? "yes" : "no"}</td>
              <td class="number">{number(one.examples_per_s)}</td>
              <td class="number">{bytes(one.peak_memory_bytes)}</td>
              <td><a href={routeHref(["jobs", one.job])}>{one.job}</a></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return <div><dt>{name}</dt><dd>{value}</dd></div>;
}
