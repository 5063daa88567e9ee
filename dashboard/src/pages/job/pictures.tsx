// The tab with the pictures that a program has logged: a grid, and a slider over their steps.
import { useState } from "preact/hooks";
import { usePoll } from "../../api/use-poll.ts";
import { API_ROOT } from "../../api/request.ts";
import type { JobImage, JobImageList } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { integer } from "../../display/format.ts";
import { imagesAt, imageSteps } from "../../display/run-images.ts";
import type { TabProps } from "./tab-props.ts";

export function Pictures({ job, intervalMs, pulse }: TabProps) {
  const images = usePoll<JobImageList>(`/jobs/${job.id}/images`, intervalMs, pulse);
  return (
    <LoadState what="pictures" of={images}>
      {({ items }) => items.length === 0
        ? <EmptyState title="No pictures yet">The program adds them with <code>run.log_image(name, picture)</code>.</EmptyState>
        : <Grid jobId={job.id} images={items} />}
    </LoadState>
  );
}

function Grid({ jobId, images }: { jobId: string; images: readonly JobImage[] }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const steps = imageSteps(images);
  const last = steps.length - 1;
  // A chosen step stays in view when further ones arrive; else the newest one is.
  const index = chosen === null ? last : Math.max(0, steps.findLastIndex((step) => step <= chosen));
  const step = steps[index]!;
  return (
    <div class="stack">
      <label class="field grow">
        <span>Step {integer(step)}, {index + 1} of {steps.length}</span>
        <input
          type="range" min={0} max={last} value={index} aria-valuetext={`step ${integer(step)}`}
          onInput={(event) => {
            const place = Number(event.currentTarget.value);
            setChosen(place === last ? null : steps[place]!);
          }}
        />
      </label>
      {imagesAt(images, step).map(([name, shown]) => (
        <section key={name} aria-label={name}>
          <h3>{name} <small class="muted">step {integer(shown[0]?.step)}</small></h3>
          <div class="pictures">
            {shown.map((image) => {
              const href = `${API_ROOT}/jobs/${jobId}/artifacts/${image.path.split("/").map(encodeURIComponent).join("/")}`;
              return <a key={image.path} href={href} download><img class="run-picture" src={href} alt={`${name} at step ${image.step}`} /></a>;
            })}
          </div>
        </section>
      ))}
    </div>
  );
}
