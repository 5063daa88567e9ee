// The row of a study, with its progress and its answer, and the rows of its jobs once it is unfolded.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { FoldedStudy, JobPage, ListedJob } from "../../api/types.ts";
import { usePoll } from "../../api/use-poll.ts";
import { Badge } from "../../components/badge.tsx";
import { age, dateTime, integer } from "../../display/format.ts";
import { studyOutcome } from "../../display/studies.ts";
import { routeHref } from "../../router.ts";
import type { Column } from "./columns.ts";
import { filtersHref, studyJobsPath } from "./filters.ts";
import { JobRow, SelectCell, type RowProps } from "./rows.tsx";
import { coverage, jobCount } from "./selection.ts";

const STUDY_POLL_MS = 4000;
/** The columns of a study's row; its outcome takes the place of the others. */
const STUDY_COLUMNS = new Set(["name", "state", "progress", "age"]);

interface StudyProps extends RowProps {
  study: FoldedStudy;
  /** The ids of its jobs that the box of the study has selected before. */
  knownIds: readonly string[];
  onSelectStudy: (study: FoldedStudy, isOn: boolean) => void;
  /** Called with its jobs as they are now, while it is unfolded. */
  onJobs: (jobs: readonly ListedJob[]) => void;
}

export function StudyRows(props: StudyProps) {
  const { study, job, columns, now, selection } = props;
  const [isOpen, open] = useState(false);
  const fold = <button type="button" class="fold" aria-expanded={isOpen} aria-label={`Jobs of ${study.name}`} onClick={() => open(!isOpen)} />;
  return (
    <>
      <tr class="study" tabIndex={-1} data-study={study.id}>
        <SelectCell
          label={`Select the ${jobCount(study.jobs)} of ${study.name}`}
          coverage={coverage(selection, props.knownIds)}
          onSelect={(isOn) => props.onSelectStudy(study, isOn)}
        />
        {studyCells(columns).map((cell) => (
          <td key={cell.column.id} colSpan={cell.span} data-name={cell.hasOutcome ? "Outcome" : cell.column.title}
            class={cell.column.id === "age" ? "number" : undefined} title={cellTitle(cell, study, job)}>
            {cellContent(cell, study, job, now, fold)}
          </td>
        ))}
        <td class="actions" />
      </tr>
      {isOpen && <StudyJobs {...props} />}
    </>
  );
}

interface StudyCell {
  column: Column;
  span: number;
  hasOutcome: boolean;
}

/** The cells of a study: those it has a value for, and one over each run of other columns; the longest has the outcome. */
function studyCells(columns: readonly Column[]): StudyCell[] {
  const cells: StudyCell[] = [];
  for (const column of columns) {
    const last = cells.at(-1);
    if (last && !STUDY_COLUMNS.has(column.id) && !STUDY_COLUMNS.has(last.column.id)) last.span += 1;
    else cells.push({ column, span: 1, hasOutcome: false });
  }
  const runs = cells.filter(({ column }) => !STUDY_COLUMNS.has(column.id)).sort((a, b) => b.span - a.span);
  if (runs[0]) runs[0].hasOutcome = true;
  return cells;
}

function cellContent({ column, hasOutcome }: StudyCell, study: FoldedStudy, job: ListedJob, now: number, fold: ComponentChildren): ComponentChildren {
  switch (column.id) {
    case "name":
      return (
        <span class="name-cell">
          {fold}
          <a class="name" href={routeHref(["studies", study.id])}>{study.name}</a>
          <span class="label" title={`${jobCount(study.jobs)} of this study match`}>{study.kind}</span>
        </span>
      );
    case "state":
      return <Badge state={study.state} />;
    case "progress":
      return <StudyProgress study={study} />;
    case "age":
      return age(job.created_at, now);
    default:
      return hasOutcome ? studyOutcome(study) : null;
  }
}

function cellTitle({ column, hasOutcome }: StudyCell, study: FoldedStudy, job: ListedJob): string | undefined {
  if (column.id === "name") return study.name;
  if (column.id === "age") return dateTime(job.created_at);
  return hasOutcome ? studyOutcome(study) : undefined;
}

function StudyProgress({ study }: { study: FoldedStudy }) {
  const [ended, planned] = [study.jobs_ended ?? 0, study.jobs_planned ?? study.jobs];
  return (
    <span class="progress">
      <progress max={Math.max(planned, 1)} value={ended} aria-label={`Progress of ${study.name}`} />
      <span class="progress-words">{integer(ended)} of {integer(planned)} jobs</span>
    </span>
  );
}

function StudyJobs({ study, filters, columns, onJobs, ...row }: StudyProps) {
  const polled = usePoll<JobPage>(studyJobsPath(filters, study.id), STUDY_POLL_MS);
  const page = polled.data;
  useEffect(() => {
    if (page) onJobs(page.items);
  }, [page]);
  if (!page) {
    return <tr class="note"><td colSpan={columns.length + 2} role="status">{polled.error ? polled.error.message : "Loading jobs…"}</td></tr>;
  }
  return (
    <>
      {page.items.map((job) => <JobRow {...row} key={job.id} filters={filters} columns={columns} job={job} isOfStudy />)}
      {page.next_cursor && (
        <tr class="note">
          <td colSpan={columns.length + 2}><a href={filtersHref(filters, { study: study.id })}>All {jobCount(study.jobs)} of this study</a></td>
        </tr>
      )}
    </>
  );
}
