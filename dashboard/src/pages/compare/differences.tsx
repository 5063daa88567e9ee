// The table of a comparison: specs and results of the jobs. Rows that are equal for all jobs are
// folded.
import { useState } from "preact/hooks";
import { routeHref } from "../../router.ts";
import type { ComparedJob, Comparison } from "../../api/types.ts";
import { bytes, duration, MISSING, number, percent, integer } from "../../display/format.ts";
import { isMetric, metricTitle, metricValue } from "../../display/metrics.ts";

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
            <th scope="col"><span class="hidden">Quantity</span></th>
            {comparison.jobs.map((one, index) => (
              <th key={one.job.id} scope="col">
                <span class={`curve curve-${index + 1}`}><i aria-hidden="true" /></span>
                <a href={routeHref(["jobs", one.job.id])}>{one.job.name}</a>
                {one.job.id === comparison.baseline && <div class="muted">baseline</div>}
              </th>
            ))}
          </tr>
        </thead>
        <Section title="Compared with the baseline" rows={baselineRows(comparison)} width={comparison.jobs.length} />
        <Section title="Spec differences" rows={specRows(comparison)} width={comparison.jobs.length} />
        <Section title="Results" rows={resultRows(comparison)} width={comparison.jobs.length} />
      </table>
    </div>
  );
}

function Section({ title, rows, width }: { title: string; rows: readonly Row[]; width: number }) {
  const [isOpen, setOpen] = useState(false);
  const equal = rows.filter(isEqual);
  const differing = rows.filter((row) => !isEqual(row));
  return (
    <tbody>
      <tr><th scope="rowgroup" colSpan={width + 1}>{title}</th></tr>
      {rows.length === 0 && <tr><td colSpan={width + 1} class="muted">None</td></tr>}
      {differing.map((row) => <TableRow key={row.name} {...row} />)}
      {equal.length > 0 && (
        <tr>
          <td colSpan={width + 1}>
            <button type="button" class="button quiet small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
              {isOpen ? "Hide" : "Show"} {equal.length} equal {equal.length === 1 ? "row" : "rows"}
            </button>
          </td>
        </tr>
      )}
      {isOpen && equal.map((row) => <TableRow key={row.name} {...row} />)}
    </tbody>
  );
}

function isEqual({ cells }: Row): boolean {
  return cells.length > 1 && cells.every(({ text }) => text === cells[0]!.text);
}

function TableRow({ name, cells }: Row) {
  return (
    <tr>
      <th scope="row" class="muted">{name}</th>
      {cells.map((cell, index) => <td key={index} class={`break ${cell.tone ?? ""}`}>{cell.text}</td>)}
    </tr>
  );
}

function baselineRows({ jobs, baseline }: Comparison): Row[] {
  const isBaseline = (one: ComparedJob) => one.job.id === baseline;
  return [
    {
      name: "Speed-up",
      cells: jobs.map((one) => ({ text: one.speedup === null ? MISSING : `${number(one.speedup, 3)} ×`, tone: isBaseline(one) ? "" : "differs" })),
    },
    {
      name: "Training loss vs. baseline",
      cells: jobs.map((one) => ({ text: signed(one.loss_drift), tone: isBaseline(one) ? "" : "differs" })),
    },
  ];
}

function signed(value: ComparedJob["loss_drift"]): string {
  if (typeof value !== "number") return number(value);
  const words = percent(Math.abs(value));
  return value === 0 ? words : `${value > 0 ? "+" : "−"}${words}`;
}

const RESULT_NAMES: Record<string, string> = {
  steps_s: "training time",
  peak_memory_bytes: "peak memory",
  median_examples_per_s: "median examples/s",
};

function resultRows({ results }: Comparison): Row[] {
  // Once all jobs have ended, the final loss says the same as the last one.
  const allEnded = results.some(({ name, values }) => name === "final_loss" && !values.includes(null));
  const shown = results.filter(({ name, values }) => (
    values.some((value) => value !== null) && !(name === "last_loss" && allEnded)
  ));
  return shown.map(({ name, values }) => ({
    name: isMetric(name) ? metricTitle(name).toLowerCase() : (RESULT_NAMES[name] ?? name.replaceAll("_", " ")),
    cells: values.map((value) => ({ text: formatResult(name, value) })),
  }));
}

function formatResult(name: string, value: unknown): string {
  if (value === null || value === undefined) return MISSING;
  if (typeof value === "string" && (name === "state" || name === "policy")) return value;
  if (typeof value !== "number") return number(value as string);
  if (isMetric(name)) return metricValue(name, value);
  if (name.endsWith("_share")) return percent(value);
  if (name.endsWith("_bytes")) return bytes(value);
  if (name.endsWith("_per_s")) return number(value, 4);
  if (name.endsWith("_s")) return duration(value);
  return Number.isInteger(value) ? integer(value) : number(value);
}

function specRows({ spec }: Comparison): Row[] {
  const shown = spec.filter(({ pointer }) => pointer !== "/name"); // the column heading shows it
  return shown.map(({ pointer, values }) => ({
    name: pointer.slice(1).replaceAll("/", "."),
    cells: values.map((value) => ({ text: value === null ? MISSING : typeof value === "string" ? value : JSON.stringify(value) })),
  }));
}
