import type { ReactElement } from 'react'
import type { JobView, TimelineEntry } from '../api/types.ts'
import { useNow } from './clock.ts'
import { BudgetLink } from './limit-parts.tsx'
import { At } from './parts.tsx'
import { duration } from './words.ts'

interface Span {
  readonly entry: TimelineEntry
  readonly from: number
  readonly to: number
}

const COLOURS: Record<TimelineEntry['kind'], string> = {
  arrived: 'bg-(--plot-6)',
  waited: 'bg-(--plot-2)',
  attempt: 'bg-(--plot-3)',
  ended: 'bg-(--plot-1)',
}

/** Waits and runs on one axis of time, a row each, in the order in which they began. */
export function Timeline({ job }: { readonly job: JobView }): ReactElement {
  const now = useNow()
  const spans = job.timeline.map((entry): Span => {
    const from = Date.parse(entry.at)
    const open = entry.until === null && (entry.kind === 'waited' || entry.kind === 'attempt')
    const length = entry.durationMs
    const to =
      entry.until !== null
        ? Date.parse(entry.until)
        : length !== undefined
          ? from + length
          : open && job.finishedAt === null
            ? now
            : from
    return { entry, from, to: Math.max(from, to) }
  })
  const begin = Math.min(...spans.map(({ from }) => from))
  const end = Math.max(begin + 1, ...spans.map(({ to }) => to))
  return (
    <ol className="grid gap-2.5">
      {spans.map((span, n) => (
        <Row key={n} span={span} begin={begin} length={end - begin} waiting={job.state === 'available'} />
      ))}
    </ol>
  )
}

function Row({
  span: { entry, from, to },
  begin,
  length,
  waiting,
}: {
  readonly span: Span
  readonly begin: number
  readonly length: number
  readonly waiting: boolean
}): ReactElement {
  const left = ((from - begin) / length) * 100
  const width = ((to - from) / length) * 100
  const failed = entry.error !== undefined
  return (
    <li className="grid gap-1">
      <div className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span className="min-w-0 [overflow-wrap:anywhere]">
          {entry.kind === 'waited' && entry.limit !== undefined ? (
            <>
              {entry.until === null && waiting ? 'Waits' : 'Waited'} for{' '}
              <BudgetLink limit={entry.limit} name={entry.key ?? null} />
            </>
          ) : (
            entry.words
          )}
        </span>
        <span className="numbers text-xs text-faint">
          {to > from && <span className="mr-2 font-medium text-soft">{duration(to - from)}</span>}
          <At at={entry.at} />
        </span>
      </div>
      <div className="relative h-2 overflow-hidden rounded-full bg-sunken" aria-hidden="true">
        <div
          className={`absolute inset-y-0 min-w-1 rounded-full ${failed ? 'bg-(--plot-5)' : COLOURS[entry.kind]}`}
          style={{ left: `min(${left}%, calc(100% - 4px))`, width: `${width}%` }}
        />
      </div>
      {entry.error && (
        <details className="text-bad">
          <summary className="cursor-pointer [overflow-wrap:anywhere]">
            {entry.error.code !== undefined && <code className="mr-1.5 text-xs">{entry.error.code}</code>}
            {entry.error.message}
          </summary>
          {typeof entry.error['stack'] === 'string' && (
            <pre tabIndex={0} className="mt-1 max-h-64 overflow-auto rounded-md bg-sunken p-3 text-xs text-soft">
              {entry.error['stack']}
            </pre>
          )}
        </details>
      )}
    </li>
  )
}
