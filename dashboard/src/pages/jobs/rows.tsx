// The row of a job, and the box that selects a row.
import { useEffect, useRef } from "preact/hooks";
import type { ListedJob } from "../../api/types.ts";
import { JobActions } from "../../components/job-actions.tsx";
import { Cell } from "./cells.tsx";
import type { Column } from "./columns.ts";
import type { Filters } from "./filters.ts";
import type { coverage, Selection } from "./selection.ts";

export interface RowProps {
  job: ListedJob;
  filters: Filters;
  columns: readonly Column[];
  now: number;
  selection: Selection;
  /** `isRange`: with all rows between this one and the one that was selected last. */
  onSelect: (job: ListedJob, isOn: boolean, isRange: boolean) => void;
  onDone: () => void;
}

export function JobRow({ job, columns, now, selection, onSelect, onDone, isOfStudy = false }: RowProps & { isOfStudy?: boolean }) {
  const isSelected = selection.has(job.id);
  return (
    <tr tabIndex={-1} data-job={job.id} class={[isSelected && "selected", isOfStudy && "of-study"].filter(Boolean).join(" ")}>
      <SelectCell label={`Select ${job.name}`} coverage={isSelected ? "all" : "none"} onSelect={(isOn, isRange) => onSelect(job, isOn, isRange)} />
      {columns.map((column) => <Cell key={column.id} column={column} job={job} now={now} isOfStudy={isOfStudy} />)}
      <td class="actions"><span class="row-actions"><JobActions job={job} onDone={onDone} /></span></td>
    </tr>
  );
}

export function SelectCell(props: { label: string; coverage: ReturnType<typeof coverage>; onSelect: (isOn: boolean, isRange: boolean) => void }) {
  return <td class="choose"><SelectBox {...props} /></td>;
}

/** A box as large as its cell; partly selected rows make it indeterminate. */
export function SelectBox(props: { label: string; coverage: ReturnType<typeof coverage>; onSelect: (isOn: boolean, isRange: boolean) => void }) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (box.current) box.current.indeterminate = props.coverage === "some";
  }, [props.coverage]);
  return (
    <label class="select-box">
      <input
        ref={box}
        type="checkbox"
        aria-label={props.label}
        checked={props.coverage === "all"}
        onClick={(event) => props.onSelect(event.currentTarget.checked, event.shiftKey)}
      />
    </label>
  );
}
