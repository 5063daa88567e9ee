// What the server says of the spec: mistakes, or what to expect of the job.
import { FigureList, Findings } from "../../parts/findings.tsx";
import type { Verdict } from "./check.ts";

export function VerdictView({ verdict, slip }: { verdict: Verdict; slip: string | null }) {
  return (
    <section class="stack" role="status" aria-label="Preflight" aria-busy={verdict.isBusy}>
      {slip !== null ? (
        <p class="callout error"><strong>The YAML cannot be read.</strong> {slip}</p>
      ) : (
        <Said verdict={verdict} />
      )}
    </section>
  );
}

function Said({ verdict: { validation, problems, failure, isBusy } }: { verdict: Verdict }) {
  if (failure !== null) return <p class="callout warning"><strong>Not checked.</strong> {failure}</p>;
  if (problems.length > 0) {
    return (
      <div class="callout error">
        <strong>{problems.length === 1 ? "One mistake" : `${problems.length} mistakes`}</strong>
        <ul class="plain">
          {problems.map((one) => <li key={one.pointer + one.code}><code>{one.pointer || "/"}</code> {one.detail}</li>)}
        </ul>
      </div>
    );
  }
  if (validation === null) return <p class="callout">{isBusy ? "Checking …" : "Nothing to check yet."}</p>;
  return (
    <>
      <Findings findings={validation.findings} />
      {validation.figures && <FigureList figures={validation.figures} />}
    </>
  );
}
