// The answer of a study of precision: a row for each policy, with its interval and the noise band.
import { routeHref } from "../../router.ts";
import type { PolicyAnswer, PrecisionAnswer } from "../../api/types.ts";
import { CopyButton } from "../../components/buttons.tsx";
import { bytes, estimated, factor, integer, MISSING, number, percent } from "../../display/format.ts";
import { intervalScale } from "../../display/interval.ts";

const WIDTH_PX = 180;
const HEIGHT_PX = 22;
const MIDDLE_PX = HEIGHT_PX / 2;

export function PrecisionResult({ answer }: { answer: PrecisionAnswer }) {
  const half = answer.noise.half_width;
  const x = intervalScale(answer.policies.flatMap((one) => (one.interval === null ? [] : [one.interval])), half, WIDTH_PX);
  const chosen = answer.policies.find((one) => one.policy === answer.recommended);
  return (
    <>
      <p class="callout good"><strong>{answer.summary}</strong></p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Policies">
        <table class="table" aria-label="Policies">
          <thead>
            <tr>
              <th scope="col">Policy</th><th scope="col">Verdict</th>
              <th scope="col" class="number">Difference</th><th scope="col">Interval, noise band</th>
              <th scope="col" class="number">Speed-up</th><th scope="col" class="number">Memory</th>
              <th scope="col" class="number">Largest batch</th><th scope="col" class="number">Skipped</th>
            </tr>
          </thead>
          <tbody>{answer.policies.map((one) => <PolicyRow key={one.policy} one={one} half={half} x={x} />)}</tbody>
        </table>
      </div>
      <ul>
        {answer.policies.map((one) => (
          <li key={one.policy}>
            <code>{one.policy}</code>: {one.explanation} <JobLinks ids={one.jobs} />
          </li>
        ))}
      </ul>
      <p class="muted">
        Metric <code>{answer.metric}</code>, {answer.higher_is_better ? "higher" : "lower"} is better; seeds {answer.seeds.join(", ")}.
        Test: {answer.test}. The green area is the noise band: how far results of float32 lie apart when only the seed changes.
      </p>
      {chosen && <SpecSections sections={chosen.write} />}
    </>
  );
}

function PolicyRow({ one, half, x }: { one: PolicyAnswer; half: number; x: (value: number) => number }) {
  return (
    <tr>
      <th scope="row"><code>{one.policy}</code></th>
      <td><span class={`badge ${one.verdict.split(" ")[0]}`}><i aria-hidden="true" />{one.verdict}</span></td>
      <td class="number">{signed(one.difference)}</td>
      <td><Interval one={one} half={half} x={x} /></td>
      <td class="number">{factor(one.speedup)}</td>
      <td class="number">{bytes(one.memory)}</td>
      <td class="number" title={one.largest_batch_is_measured ? "measured" : "estimated"}>
        {one.largest_batch_is_measured ? integer(one.largest_batch) : estimated(one.largest_batch)}
      </td>
      <td class="number">{percent(one.skipped_share)}</td>
    </tr>
  );
}

function Interval({ one, half, x }: { one: PolicyAnswer; half: number; x: (value: number) => number }) {
  const [low, high] = one.interval ?? [];
  const text = low === undefined || high === undefined ? "no interval" : `from ${signed(low)} to ${signed(high)}; noise band ±${number(half)}`;
  return (
    <svg class="interval" viewBox={`0 0 ${WIDTH_PX} ${HEIGHT_PX}`} role="img" aria-label={text}>
      <title>{text}</title>
      <rect class="band" x={x(-half)} y="2" width={x(half) - x(-half)} height={HEIGHT_PX - 4} />
      <line class="zero" x1={x(0)} x2={x(0)} y1="0" y2={HEIGHT_PX} />
      {low !== undefined && high !== undefined && <line class="span" x1={x(low)} x2={x(high)} y1={MIDDLE_PX} y2={MIDDLE_PX} />}
      {one.difference !== null && <circle class="mean" cx={x(one.difference)} cy={MIDDLE_PX} r="3" />}
    </svg>
  );
}

function JobLinks({ ids }: { ids: readonly string[] }) {
  return (
    <span class="muted">
      Jobs: {ids.map((id, index) => <span key={id}>{index > 0 && ", "}<a href={routeHref(["jobs", id])}>{id}</a></span>)}
    </span>
  );
}

export function SpecSections({ sections }: { sections: Record<string, unknown> }) {
  const text = JSON.stringify(sections, null, 2);
  return (
    <section class="card stack" aria-label="Write into the spec">
      <div class="row spread"><h2>Write into the spec</h2><CopyButton label="Copy" text={text} /></div>
      <pre tabIndex={0}>{text}</pre>
    </section>
  );
}

function signed(value: number | null): string {
  return value === null ? MISSING : `${value > 0 ? "+" : ""}${number(value)}`;
}
