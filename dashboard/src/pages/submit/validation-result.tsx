// The result of validation: errors, or findings and estimates.
import { FigureList, Findings } from "../../components/preflight-findings.tsx";
import type { ValidationState } from "./validation.ts";

export function ValidationResult({ validationState, yamlError }: { validationState: ValidationState; yamlError: string | null }) {
  return (
    <section class="stack" role="status" aria-label="Preflight" aria-busy={validationState.isBusy}>
      {yamlError !== null ? (
        <p class="callout error"><strong>Invalid YAML.</strong> {yamlError}</p>
      ) : (
        <ValidationBody validationState={validationState} />
      )}
    </section>
  );
}

function ValidationBody({ validationState: { validation, problems, failure, isBusy } }: { validationState: ValidationState }) {
  if (failure !== null) return <p class="callout warning"><strong>Not validated.</strong> {failure}</p>;
  if (problems.length > 0) {
    return (
      <div class="callout error">
        <strong>{problems.length === 1 ? "1 error" : `${problems.length} errors`}</strong>
        <ul class="plain">
          {problems.map((one) => <li key={one.pointer + one.code}><code>{one.pointer || "/"}</code> {one.detail}</li>)}
        </ul>
      </div>
    );
  }
  if (validation === null) return <p class="callout">{isBusy ? "Validating…" : "Nothing to validate yet."}</p>;
  return (
    <>
      <Findings findings={validation.findings} />
      {validation.figures && <FigureList figures={validation.figures} />}
    </>
  );
}
