// What a job adds up to.
import type { Job } from "../../api/types.ts";
import { bytes, duration, NOTHING, number, percent, scale, whole } from "../../words/format.ts";

export function Facts({ job }: { job: Job }) {
  const sum = job.summary ?? {};
  const lost = (sum.skipped_s ?? 0) + (sum.repeated_s ?? 0);
  const facts: [string, string, string?][] = [
    ["Step", whole(job.step), job.total_steps ? `of ${whole(job.total_steps)}` : ""],
    ["Loss", number(job.latest?.loss), sum.best_loss == null ? "" : `best ${number(sum.best_loss)}`],
    ["Loss scale", scale(job.latest?.loss_scale), sum.scale_health ?? ""],
    ["Skipped steps", whole(sum.skipped), sum.skipped_share == null ? "" : percent(sum.skipped_share)],
    ["Examples/s", number(sum.median_examples_per_s, 3), "median"],
    ["Training time", duration(sum.steps_s), lost > 0 ? `${duration(lost)} lost to skips and repeats` : ""],
    ["Validation", number(sum.val_accuracy), sum.val_loss == null ? "" : `loss ${number(sum.val_loss)}`],
    ["Peak memory", bytes(sum.peak_memory_bytes)],
    ["Attempt", `${job.attempt} of ${job.max_attempts}`, sum.engine ? `engine ${sum.engine}` : ""],
  ];
  const known = facts.filter(([, value]) => value !== NOTHING);
  return (
    <dl class="facts" aria-label="Summary">
      {known.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value} {more && <small>{more}</small>}</dd>
        </div>
      ))}
    </dl>
  );
}
