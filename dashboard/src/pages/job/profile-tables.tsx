// The tables of a profile: operations, kernels and layers, sorted by the column that is clicked.
import { SortableTable, type Column } from "../../components/sortable-table.tsx";
import { number, percent } from "../../display/format.ts";
import { shortName, shortTime, type ProfileKernel, type ProfileOperation, type ProfileReport } from "../../display/profile.ts";

type Layer = ProfileReport["layers"][number];

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
