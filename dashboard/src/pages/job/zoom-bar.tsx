// Zooming and moving without a mouse, and what the plots show now.
import type { Range } from "../../plots/marks.ts";
import { whole } from "../../words/format.ts";
import { moved, scaled } from "./ranges.ts";

interface Props {
  shown: Range;
  all: Range;
  isZoomed: boolean;
  stepsPerPoint: number;
  onShow: (range: Range | null) => void;
}

export function ZoomBar({ shown, all, isZoomed, stepsPerPoint, onShow }: Props) {
  return (
    <div class="row spread">
      <p class="muted" role="status" aria-label="What the plots show">
        Steps {whole(shown[0])} to {whole(shown[1])}.{" "}
        {stepsPerPoint > 1 ? `A point is ${whole(stepsPerPoint)} steps: their mean, in a band from least to greatest.` : "Every step is a point."}
        {!isZoomed && " Drag over a plot to zoom."}
      </p>
      <div class="row" role="group" aria-label="Zoom">
        <Button label="Zoom in" disabled={shown[1] - shown[0] <= 2} onClick={() => onShow(scaled(shown, 0.5, all))} />
        <Button label="Zoom out" disabled={!isZoomed} onClick={() => onShow(scaled(shown, 2, all))} />
        <Button label="Earlier" disabled={!isZoomed || shown[0] <= all[0]} onClick={() => onShow(moved(shown, -1, all))} />
        <Button label="Later" disabled={!isZoomed || shown[1] >= all[1]} onClick={() => onShow(moved(shown, 1, all))} />
        <Button label="Whole run" disabled={!isZoomed} onClick={() => onShow(null)} />
      </div>
    </div>
  );
}

function Button({ label, disabled, onClick }: { label: string; disabled: boolean; onClick: () => void }) {
  return <button type="button" class="button small" disabled={disabled} onClick={onClick}>{label}</button>;
}
