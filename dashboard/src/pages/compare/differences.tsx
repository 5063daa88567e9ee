// What differs between the jobs, in what was asked for and in what came out.
import { fragmentOf } from "../../address.ts";
import type { ComparedJob, Comparison } from "../../api/types.ts";
import { bytes, duration, NOTHING, number, percent, whole } from "../../words/format.ts";

interface Row {
  name: string;
  cells: readonly { text: string; tone?: string }[];
}

export function Differences({ comparison }: { comparison: Comparison }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of differences">
      <table class="table" aria-label="Differences">
        <thead>
          <tr>
            <th scope="col"><span class="hidden">What</span></th>
            {comparison.jobs.map((one, index) => (
              <th key={one.job.id} scope="col">
                <span class={`curve curve-${index + 1}`}><i aria-hidden="true" /></span>
                <a href={fragmentOf(["jobs", one.job.id])}>{one.job.name}</a>
                {one.job.id === comparison.baseline && <div class="muted">baseline</div>}
              </th>
            ))}
          </tr>
        </thead>
        <Section title="Against the baseline" rows={againstBaseline(comparison)} width={comparison.jobs.length} />
        <Section title="Where the specs differ" rows={specOf(comparison)} width={comparison.jobs.length} />
        <Section title="Results" rows={resultsOf(comparison)} width={comparison.jobs.length} />
      </table>
    </div>
  );
}

function Section({ title, rows, width }: { title: string; rows: readonly Row[]; width: number }) {
  return (
    <tbody>
      <tr><th scope="rowgroup" colSpan={width + 1}>{title}</th></tr>
      {rows.length === 0 && <tr><td colSpan={width + 1} class="muted">Nothing.</td></tr>}
      {rows.map((row) => (
        <tr key={row.name}>
          <th scope="row" class="muted">{row.name}</th>
          {row.cells.map((cell, index) => <td key={index} class={`break ${cell.tone ?? ""}`}>{cell.text}</td>)}
        </tr>
      ))}
    </tbody>
  );
}

function againstBaseline({ jobs, baseline }: Comparison): Row[] {
  const isBaseline = (one: ComparedJob) => one.job.id === baseline;
  return [
    {
      name: "Speed-up",
      cells: jobs.map((one) => ({ text: one.speedup === null ? NOTHING : `${number(one.speedup, 3)} ×`, tone: isBaseline(one) ? "" : "differs" })),
    },
    {
      name: "Loss drift",
      cells: jobs.map((one) => ({ text: signed(one.loss_drift), tone: isBaseline(one) ? "" : "differs" })),
    },
  ];
}

function signed(value: ComparedJob["loss_drift"]): string {
  if (typeof value !== "number") return number(value);
  const words = percent(Math.abs(value));
  return value === 0 ? words : `${value > 0 ? "+" : "−"}${words}`;
}

const NAMES: Record<string, string> = {
  steps_s: "time of the steps",
  peak_memory_bytes: "peak memory",
  median_examples_per_s: "median examples/s",
  val_loss: "validation loss",
  val_accuracy: "validation accuracy",
};

function resultsOf({ results }: Comparison): Row[] {
  return results.filter(({ values }) => values.some((value) => value !== null)).map(({ name, values }) => ({
    name: NAMES[name] ?? name.replaceAll("_", " "),
    cells: values.map((value) => ({ text: resultWords(name, value) })),
  }));
}

function resultWords(name: string, value: unknown): string {
  if (value === null || value === undefined) return NOTHING;
  if (typeof value === "string" && name === "state") return value;
  if (typeof value !== "number") return number(value as string);
  if (name.endsWith("_share") || name === "val_accuracy") return percent(value);
  if (name.endsWith("_bytes")) return bytes(value);
  if (name.endsWith("_per_s")) return number(value, 4);
  if (name.endsWith("_s")) return duration(value);
  return Number.isInteger(value) ? whole(value) : number(value);
}

function specOf({ spec }: Comparison): Row[] {
  const told = spec.filter(({ pointer }) => pointer !== "/name"); // the head of the column says it
  return told.map(({ pointer, values }) => ({
    name: pointer.slice(1).replaceAll("/", "."),
    cells: values.map((value) => ({ text: value === null ? NOTHING : typeof value === "string" ? value : JSON.stringify(value) })),
  }));
}
