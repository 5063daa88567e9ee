// The table of jobs: a row of the same height for each job, and for each study.
import type { FoldedStudy, ListedJob } from "../../api/types.ts";
import { useNow } from "../../hooks.ts";
import { currentFilters, filtersHref, type Filters } from "./filters.ts";
import { columnPx, nextSort, sortDirection, type Column } from "./columns.ts";
import { JobRow, SelectBox, type RowProps } from "./rows.tsx";
import { coverage, type Selection } from "./selection.ts";
import { StudyRows } from "./study-rows.tsx";
import { go } from "../../router.ts";

interface Props extends Pick<RowProps, "filters" | "columns" | "onSelect" | "onDone"> {
  jobs: readonly ListedJob[];
  widthPx: number;
  selection: Selection;
  studyIds: ReadonlyMap<string, readonly string[]>;
  onSelectStudy: (study: FoldedStudy, isOn: boolean) => void;
  onSelectPage: (isOn: boolean) => void;
  onStudyJobs: (jobs: readonly ListedJob[]) => void;
}

export function JobTable({ jobs, widthPx, studyIds, onSelectStudy, onSelectPage, onStudyJobs, ...row }: Props) {
  const now = useNow(5000);
  const { columns, filters, selection } = row;
  const single = jobs.filter(({ study }) => !study).map(({ id }) => id);
  return (
    <table class="table jobs" aria-label="Jobs">
      <colgroup>
        <col class="choose" />
        {columns.map((column) => <col key={column.id} style={column.id === "name" ? undefined : { width: `${columnPx(column, widthPx)}px` }} />)}
        <col class="actions" />
      </colgroup>
      <thead>
        <tr>
          <th scope="col" class="choose"><SelectBox label="Select the jobs of this page" coverage={coverage(selection, single)} onSelect={onSelectPage} /></th>
          {columns.map((column) => <Heading key={column.id} column={column} filters={filters} />)}
          <th scope="col" class="actions"><span class="hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) =>
          job.study
            ? <StudyRows {...row} key={`study ${job.study.id}`} job={job} study={job.study} now={now} knownIds={studyIds.get(job.study.id) ?? []} onSelectStudy={onSelectStudy} onJobs={onStudyJobs} />
            : <JobRow {...row} key={job.id} job={job} now={now} />,
        )}
      </tbody>
    </table>
  );
}

function Heading({ column, filters }: { column: Column; filters: Filters }) {
  const sort = () => go(filtersHref(currentFilters(), { sort: nextSort(column, currentFilters().sort) }), true);
  return (
    <th scope="col" class={column.isNumber ? "number" : undefined} aria-sort={sortDirection(column, filters.sort)} title={column.title}>
      {column.sort === undefined ? column.title : <button type="button" class="sort-button" onClick={sort}>{column.title}</button>}
    </th>
  );
}
