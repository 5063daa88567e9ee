// The tab with the report of the evaluation: what the trained model gets right and wrong.
import { useState } from "preact/hooks";
import { API_ROOT } from "../../../api/request.ts";
import { usePoll } from "../../../api/use-poll.ts";
import type { Artifact, ArtifactList, Job } from "../../../api/types.ts";
import { EmptyState, LoadState } from "../../../components/load-state.tsx";
import { REPORT_VERSION, reportOf, type EvaluationReport } from "../../../display/evaluation-report.ts";
import { integer, percent } from "../../../display/format.ts";
import { metricTitle, metricValue } from "../../../display/metrics.ts";
import type { TabProps } from "../tab-props.ts";
import { ClassTable, Confusion } from "./classes.tsx";
import { Calibration, Curves } from "./curves.tsx";
import { Examples } from "./examples.tsx";
import { Numbers } from "./numbers.tsx";

/** A report never changes. */
const REPORT_MS = 600_000;

export function Evaluation({ job, intervalMs, pulse }: TabProps) {
  const files = usePoll<ArtifactList>(`/jobs/${job.id}/artifacts`, intervalMs, pulse);
  return (
    <LoadState what="evaluation" of={files}>
      {({ items }) => {
        const file = reportOf(items);
        return file ? <Report key={file.path} job={job} file={file} /> : <NoReport job={job} />;
      }}
    </LoadState>
  );
}

function NoReport({ job }: { job: Job }) {
  const hasEnded = job.finished_at !== null;
  return (
    <EmptyState title={hasEnded ? "No report of an evaluation" : "No report yet"}>
      {hasEnded
        ? "A report is written when a job has succeeded, if there are validation examples, its outputs are compared with targets, and its spec does not say "
        : "When the job has succeeded, its report shows what the model gets right and wrong, and single examples. To do without, set "}
      <code>train.evaluation_report: false</code>.
    </EmptyState>
  );
}

function Report({ job, file }: { job: Job; file: Artifact }) {
  const path = `/jobs/${job.id}/artifacts/${file.path.split("/").map(encodeURIComponent).join("/")}`;
  const report = usePoll<EvaluationReport>(path, REPORT_MS);
  return (
    <LoadState what="evaluation" of={report}>
      {(loaded) => loaded.version === REPORT_VERSION
        ? <ReportView report={loaded} href={`${API_ROOT}${path}`} />
        : <EmptyState title="A report of another version">This page cannot show it. <a download href={`${API_ROOT}${path}`}>Download it</a>.</EmptyState>}
    </LoadState>
  );
}

function ReportView({ report, href }: { report: EvaluationReport; href: string }) {
  const names = Object.keys(report.outputs);
  const [chosen, choose] = useState(names[0] ?? "");
  const output = report.outputs[chosen];
  return (
    <div class="stack evaluation">
      <p class="row">
        {names.length > 1 && (
          <label>
            Output{" "}
            <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
              {names.map((name) => <option key={name}>{name}</option>)}
            </select>
          </label>
        )}
        <a class="button small" download href={href}>Report</a>
      </p>
      <dl class="profile-figures">
        <Figure name="Validation examples">{integer(report.examples)}</Figure>
        <Figure name="Weights">{report.is_best ? "of the best evaluation" : `after ${integer(report.steps)} steps`}</Figure>
        {Object.entries(report.metrics).map(([name, value]) => <Figure key={name} name={metricTitle(name)}>{metricValue(name, value)}</Figure>)}
        {output?.calibration && <Figure name="Calibration error">{percent(output.calibration.expected_error)}</Figure>}
      </dl>
      {output?.confusion && <Confusion output={output} />}
      {output?.classes && <ClassTable key={chosen} output={output} />}
      {output && (output.curves?.length || output.calibration) && (
        <div class="evaluation-plots">
          {output.curves && output.curves.length > 0 && <Curves output={output} />}
          {output.calibration && <Calibration calibration={output.calibration} />}
        </div>
      )}
      {output?.numbers?.map((figures, index) => (
        <Numbers key={index} title={output.numbers!.length > 1 ? `Number ${index + 1}` : "Errors"} figures={figures} />
      ))}
      <Examples title="The worst examples, by loss" examples={report.worst} outputs={report.outputs} />
      <Examples title="Random examples" examples={report.random} outputs={report.outputs} />
    </div>
  );
}

function Figure({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}
