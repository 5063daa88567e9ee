// The tab with the preflight findings, read from the event log.
import { queryString } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { EventPage } from "../../api/types.ts";
import { FigureList, Findings, type FigureData, type FindingData } from "../../components/preflight-findings.tsx";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import type { TabProps } from "./tab-props.ts";

export function Preflight({ job, intervalMs, pulse }: TabProps) {
  const query = queryString({ type: "preflight", limit: 200 });
  const entries = usePoll<EventPage>(`/jobs/${job.id}/events?${query}`, intervalMs, pulse);
  return (
    <LoadState what="findings" of={entries}>
      {(page) => {
        const all = page.items.map((event) => event.data as unknown as FindingData);
        const figures = all.find((finding) => finding.code === "figures");
        const findings = all.filter((finding) => finding !== figures);
        if (all.length === 0) return <EmptyState title="No findings yet">Findings appear when the job starts.</EmptyState>;
        return (
          <div class="stack">
            <Findings findings={findings} />
            {figures && <FigureList figures={figures.data as unknown as FigureData} />}
          </div>
        );
      }}
    </LoadState>
  );
}
