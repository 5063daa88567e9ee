// The tab with the profiles of a job: bars by phase and by dtype, and tables of operations and kernels.
import { useState } from "preact/hooks";
import { usePoll } from "../../api/use-poll.ts";
import { API_ROOT, sendJson } from "../../api/request.ts";
import type { Artifact, ArtifactList, Job } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { percent } from "../../display/format.ts";
import { isTracked } from "../../display/jobs.ts";
import { COPY_STEPS, profiledCopy, profilesOf, PROFILED_STEPS as STEPS, shortTime, type Profile as StoredProfile, type ProfilePart, type ProfileReport } from "../../display/profile.ts";
import { useOneAtATime } from "../../hooks.ts";
import { runAndNotify } from "../../notifications.ts";
import { currentPage, goFrom, routeHref } from "../../router.ts";
import { useCanEditJobs } from "../../session.ts";
import { KernelTable, LayerTable, OperationTable } from "./profile-tables.tsx";
import type { TabProps } from "./tab-props.ts";

/** A report never changes. */
const REPORT_MS = 600_000;
const DOWNLOADS: [end: string, label: string][] = [
  ["report.json", "Report"], ["trace.json.gz", "Trace for Perfetto"], [".xplane.pb", "Trace for TensorBoard"],
];

export function Profile({ job, intervalMs, pulse }: TabProps) {
  const files = usePoll<ArtifactList>(`/jobs/${job.id}/artifacts`, intervalMs, pulse);
  const [path, choose] = useState<string | null>(null);
  return (
    <LoadState what="profiles" of={files}>
      {({ items }) => {
        const profiles = profilesOf(items);
        const shown = profiles.find((one) => one.report.path === path) ?? profiles[0];
        return (
          <div class="stack">
            <p class="row">
              <ProfileButton job={job} />
              {shown && profiles.length > 1 && <Choice profiles={profiles} shown={shown} onChange={choose} />}
              {shown?.files.map((file) => <Download key={file.path} job={job} file={file} />)}
            </p>
            {shown
              ? <Report key={shown.report.path} path={artifactPath(job, shown.report)} />
              : (
                <EmptyState title="No profile yet">
                  A profile shows where the time of a step goes, and how much of it is truly in 16 bit. Take one while
                  the job runs, of a copy once it has ended, or set <code>runtime.profile</code> in its spec.
                </EmptyState>
              )}
          </div>
        );
      }}
    </LoadState>
  );
}

function ProfileButton({ job }: { job: Job }) {
  const canEdit = useCanEditJobs();
  if (!canEdit || isTracked(job)) return null;
  if (job.finished_at !== null) return <ProfileCopyButton job={job} />;
  if (job.state !== "running") return null;
  const ask = () => runAndNotify(
    `The next ${STEPS} steps of ${job.name} are being profiled.`,
    () => sendJson("POST", `/jobs/${job.id}/profile`, { steps: STEPS }),
  );
  return <button type="button" class="button" onClick={() => void ask()}>Profile the next {STEPS} steps</button>;
}

/** Profiles a job that has ended: a copy of it trains a few steps. */
function ProfileCopyButton({ job }: { job: Job }) {
  const [ask, isAsking] = useOneAtATime(async () => {
    const page = currentPage();
    const sent: { job: Job | null } = { job: null };
    const work = async () => {
      sent.job = await sendJson<Job>("POST", "/jobs", profiledCopy(job));
    };
    await runAndNotify(`A copy of ${job.name} trains ${COPY_STEPS} steps and is profiled.`, work);
    if (sent.job) goFrom(page, routeHref(["jobs", sent.job.id], { tab: "profile" }));
  });
  return <button type="button" class="button" disabled={isAsking} onClick={ask}>Profile {STEPS} steps of a copy</button>;
}

function Choice({ profiles, shown, onChange }: { profiles: StoredProfile[]; shown: StoredProfile; onChange: (path: string) => void }) {
  return (
    <label>
      Profile{" "}
      <select value={shown.report.path} onChange={(event) => onChange(event.currentTarget.value)}>
        {profiles.map(({ report }) => (
          <option key={report.path} value={report.path}>{report.path.split("/").slice(0, -1).join(" · ")}</option>
        ))}
      </select>
    </label>
  );
}

function Download({ job, file }: { job: Job; file: Artifact }) {
  const label = DOWNLOADS.find(([end]) => file.path.endsWith(end))?.[1] ?? file.path;
  return <a class="button small" download href={`${API_ROOT}${artifactPath(job, file)}`}>{label}</a>;
}

function artifactPath(job: Job, file: Artifact): string {
  return `/jobs/${job.id}/artifacts/${file.path.split("/").map(encodeURIComponent).join("/")}`;
}

function Report({ path }: { path: string }) {
  const report = usePoll<ProfileReport>(path, REPORT_MS);
  return <LoadState what="profile" of={report}>{(loaded) => <ReportView report={loaded} />}</LoadState>;
}

function ReportView({ report }: { report: ProfileReport }) {
  const last = report.first_step + report.steps - 1;
  return (
    <div class="stack">
      {report.findings.map((finding) => (
        <p key={finding.reason} class="profile-finding" role="alert">
          <strong>{finding.reason.replaceAll("_", " ")}:</strong> {finding.message}
        </p>
      ))}
      <dl class="profile-figures">
        <Figure name="Steps">{report.first_step} to {last}</Figure>
        <Figure name="A step takes">{shortTime(report.step_s)}</Figure>
        <Figure name="Policy">{report.policy}</Figure>
        <Figure name="Engine">{report.engine}</Figure>
        <Figure name="Device">{report.device.name || report.device.kind}</Figure>
        <Figure name="In 16 bit, of what the policy promises">{percent(report.sixteen_bit.of_promised)}</Figure>
        <Figure name="In 16 bit, of all operations">{percent(report.sixteen_bit.of_step)}</Figure>
        <Figure name="On Tensor Cores, of eligible operations">{percent(report.sixteen_bit.tensor_cores)}</Figure>
        <Figure name="Casts">{percent(report.sixteen_bit.casts)}</Figure>
      </dl>
      <div class="profile-bars">
        <Bars title="Time by phase" parts={report.phases.map((part) => ({ ...part, name: part.phase }))} />
        <Bars title="Time by dtype of the computation" parts={report.dtypes.map((part) => ({ ...part, name: part.dtype }))} />
      </div>
      <OperationTable operations={report.operations} leftOut={report.operations_left_out} />
      {report.kernels.length > 0 && <KernelTable kernels={report.kernels} />}
      <LayerTable layers={report.layers} />
    </div>
  );
}

function Figure({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function Bars({ title, parts }: { title: string; parts: ProfilePart[] }) {
  return (
    <section>
      <h2>{title}</h2>
      <table class="profile-bar-table">
        <tbody>
          {parts.map((part) => (
            <tr key={part.name}>
              <th scope="row">{part.name.replaceAll("_", " ")}</th>
              <td class="number">{shortTime(part.time_s)}</td>
              <td class="number">{part.share === null ? "" : percent(part.share)}</td>
              <td class="profile-bar-cell">
                {part.share === null
                  ? <span class="muted">outside of steps</span>
                  : <span class="profile-bar" style={{ width: `${100 * part.share}%` }} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
