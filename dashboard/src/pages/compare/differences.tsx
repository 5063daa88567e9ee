// The table of a comparison: specs and results of the jobs. Rows that are equal for all jobs are
// folded.
import { useState } from "preact/hooks";
import { routeHref } from "../../router.ts";
import type { ComparedJob, Comparison } from "../../api/types.ts";
import { factor, number, percent } from "../../display/format.ts";
import { resultText, resultTitle, shownResults, specText } from "./columns.ts";

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
        <Section title="Results" rows={resultRows(comparison)} width={comparison.jobs.length} />
        <Section title="Spec differences" rows={specRows(comparison)} width={comparison.jobs.length} />
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
      cells: jobs.map((one) => ({ text: factor(one.speedup), tone: isBaseline(one) ? "" : "differs" })),
    },
    {
      name: "Mean training loss of the last tenth of the steps, vs. baseline",
      cells: jobs.map((one) => ({ text: signed(one.loss_drift), tone: isBaseline(one) ? "" : "differs" })),
    },
  ];
}

function signed(value: ComparedJob["loss_drift"]): string {
  if (typeof value !== "number") return number(value);
  return value > 0 ? `+${percent(value)}` : percent(value);
}

function resultRows(comparison: Comparison): Row[] {
  return shownResults(comparison).map(({ name, values }) => ({
    name: resultTitle(name),
    cells: values.map((value) => ({ text: resultText(name, value) })),
  }));
}

function specRows({ spec }: Comparison): Row[] {
  const shown = spec.filter(({ pointer }) => pointer !== "/name"); // the column heading shows it
  return shown.map(({ pointer, values }) => ({
    name: pointer.slice(1).replaceAll("/", "."),
    cells: values.map((value) => ({ text: specText(value) })),
  }));
}
