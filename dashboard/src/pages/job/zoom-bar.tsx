// The range that the plots show, and buttons to zoom and pan.
import type { StepRange } from "../../plots/skip-markers.ts";
import { integer } from "../../display/format.ts";
import { pan, zoomBy } from "./ranges.ts";

interface Props {
  shown: StepRange;
  all: StepRange;
  isZoomed: boolean;
  stepsPerPoint: number;
  isSmoothed: boolean;
  onShow: (range: StepRange | null) => void;
}

export function ZoomBar({ shown, all, isZoomed, stepsPerPoint, isSmoothed, onShow }: Props) {
  return (
    <div class="row spread">
      <p class="muted" role="status" aria-label="Plot range">
        Steps {integer(shown[0])} to {integer(shown[1])}.{" "}
        {stepsPerPoint > 1 ? `Each point is the mean of ${integer(stepsPerPoint)} steps${isSmoothed ? "" : "; the band spans minimum to maximum"}.` : "Each point is one step."}
        {isSmoothed && " The faint lines are not smoothed."}
        {!isZoomed && " Drag across a plot to zoom."}
      </p>
      <div class="row" role="group" aria-label="Zoom">
        <Button label="Zoom in" disabled={shown[1] - shown[0] <= 2} onClick={() => onShow(zoomBy(shown, 0.5, all))} />
        <Button label="Zoom out" disabled={!isZoomed} onClick={() => onShow(zoomBy(shown, 2, all))} />
        <Button label="Earlier" disabled={!isZoomed || shown[0] <= all[0]} onClick={() => onShow(pan(shown, -1, all))} />
        <Button label="Later" disabled={!isZoomed || shown[1] >= all[1]} onClick={() => onShow(pan(shown, 1, all))} />
        <Button label="Reset zoom" disabled={!isZoomed} onClick={() => onShow(null)} />
      </div>
    </div>
  );
}

function Button({ label, disabled, onClick }: { label: string; disabled: boolean; onClick: () => void }) {
  return <button type="button" class="button small" disabled={disabled} onClick={onClick}>{label}</button>;
}
