// The tables of a profile: operations, kernels and layers, sorted by the column that is clicked.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { number, percent } from "../../display/format.ts";
import { shortName, shortTime, sortedBy, type ProfileKernel, type ProfileOperation, type ProfileReport } from "../../display/profile.ts";

const ROWS = 50;
type Layer = ProfileReport["layers"][number];

interface Column<T> {
  key: keyof T & string;
  title: string;
  isNumber?: boolean;
  show: (row: T) => ComponentChildren;
}

const yes = (value: boolean | null) => (value === null ? "–" : value ? "yes" : "no");

const OPERATION_COLUMNS: Column<ProfileOperation>[] = [
  { key: "name", title: "Operation", show: (row) => <span class="operation" title={row.name}>{shortName(row.name)}<div class="muted">{row.type}</div></span> },
  { key: "phase", title: "Phase", show: (row) => <span class="operation-phase">{row.phase.replaceAll("_", " ")}</span> },
  { key: "layer", title: "Layer", show: (row) => row.layer ?? "–" },
  { key: "dtype", title: "Dtype", show: (row) => row.dtype },
  { key: "computed_in", title: "Computed in", show: (row) => row.computed_in },
  { key: "calls", title: "Calls", isNumber: true, show: (row) => number(row.calls) },
  { key: "total_s", title: "Total", isNumber: true, show: (row) => shortTime(row.total_s) },
  { key: "self_s", title: "Self", isNumber: true, show: (row) => shortTime(row.self_s) },
  { key: "average_s", title: "Average", isNumber: true, show: (row) => shortTime(row.average_s) },
  { key: "eligible", title: "Eligible", show: (row) => yes(row.eligible) },
  { key: "in_16_bit", title: "16 bit", show: (row) => (row.reason ? `no: ${row.reason.replaceAll("_", " ")}` : yes(row.in_16_bit)) },
  { key: "tensor_cores", title: "Tensor Cores", show: (row) => yes(row.tensor_cores) },
];

const KERNEL_COLUMNS: Column<ProfileKernel>[] = [
  { key: "name", title: "Kernel", show: (row) => <span class="break">{row.name}</span> },
  { key: "dtype", title: "Dtype", show: (row) => row.dtype ?? "–" },
  { key: "tensor_cores", title: "Tensor Cores", show: (row) => yes(row.tensor_cores) },
  { key: "calls", title: "Calls", isNumber: true, show: (row) => number(row.calls) },
  { key: "total_s", title: "Total", isNumber: true, show: (row) => shortTime(row.total_s) },
  { key: "average_s", title: "Average", isNumber: true, show: (row) => shortTime(row.average_s) },
  { key: "max_s", title: "Longest", isNumber: true, show: (row) => shortTime(row.max_s) },
];

const LAYER_COLUMNS: Column<Layer>[] = [
  { key: "layer", title: "Layer", show: (row) => row.layer },
  { key: "forward_s", title: "Forward", isNumber: true, show: (row) => shortTime(row.forward_s) },
  { key: "backward_s", title: "Backward", isNumber: true, show: (row) => shortTime(row.backward_s) },
  { key: "time_s", title: "Total", isNumber: true, show: (row) => shortTime(row.time_s) },
  { key: "in_16_bit", title: "In 16 bit", isNumber: true, show: (row) => percent(row.in_16_bit) },
];

export function OperationTable({ operations, leftOut }: { operations: ProfileOperation[]; leftOut: number }) {
  return (
    <>
      <SortableTable title="Operations, per step" columns={OPERATION_COLUMNS} rows={operations} first="self_s" />
      {leftOut > 0 && <p class="muted">{leftOut} shorter operations are left out.</p>}
    </>
  );
}

export function KernelTable({ kernels }: { kernels: ProfileKernel[] }) {
  return <SortableTable title="Kernels, per step" columns={KERNEL_COLUMNS} rows={kernels} first="total_s" />;
}

export function LayerTable({ layers }: { layers: Layer[] }) {
  return <SortableTable title="Layers, per step" columns={LAYER_COLUMNS} rows={layers} first="time_s" />;
}

function SortableTable<T>(props: { title: string; columns: Column<T>[]; rows: T[]; first: keyof T & string }) {
  const [sort, setSort] = useState({ column: props.first, descending: true });
  const [isFull, showAll] = useState(false);
  const rows = sortedBy(props.rows, sort.column, sort.descending);
  const click = (column: keyof T & string) =>
    setSort({ column, descending: column === sort.column ? !sort.descending : true });
  return (
    <section>
      <h2>{props.title}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label={props.title}>
        <table class="table">
          <thead>
            <tr>
              {props.columns.map(({ key, title, isNumber }) => (
                <th
                  key={key}
                  scope="col"
                  class={isNumber ? "number" : ""}
                  aria-sort={sort.column !== key ? "none" : sort.descending ? "descending" : "ascending"}
                >
                  <button type="button" class="sort-button" onClick={() => click(key)}>
                    {title}{sort.column === key && (sort.descending ? " ↓" : " ↑")}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(isFull ? rows : rows.slice(0, ROWS)).map((row, index) => (
              <tr key={index}>
                {props.columns.map(({ key, isNumber, show }) => <td key={key} class={isNumber ? "number" : ""}>{show(row)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!isFull && rows.length > ROWS && (
        <button type="button" class="button small" onClick={() => showAll(true)}>Show all {rows.length}</button>
      )}
    </section>
  );
}
