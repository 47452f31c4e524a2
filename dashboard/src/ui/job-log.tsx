import { type ReactElement, useState } from 'react'
import type { JobView } from '../api/types.ts'
import { At, Badge, Button, Card, Empty, type Tone } from './parts.tsx'
import { plural } from './words.ts'

type Line = JobView['logs'][number]

const TONES: Record<Line['level'], Tone> = { debug: 'plain', info: 'info', warn: 'warn', error: 'bad' }
/** What happened last matters most. */
const AT_FIRST = 20

/** What the runs of a job have logged, oldest first; a label stands where the next attempt begins. */
export function JobLog({ job: { logs, maxAttempts, state } }: { readonly job: JobView }): ReactElement {
  const [all, setAll] = useState(false)
  const shown = all ? logs : logs.slice(-AT_FIRST)
  const hidden = logs.length - shown.length
  return (
    <Card
      title="Logs"
      hint={logs.length === 0 ? undefined : plural(logs.length, 'line')}
      actions={hidden > 0 && <Button onClick={() => setAll(true)}>Show {hidden} earlier</Button>}
    >
      {logs.length === 0 ? (
        <Empty title={state === 'active' ? 'It has logged nothing yet' : 'It has logged nothing'}>
          Lines of <code>ctx.logger</code> are kept here, as far as <code>keepLogs</code> of the engine says.
        </Empty>
      ) : (
        <ol className="grid gap-1.5">
          {shown.map((line, n) => (
            <li key={n}>
              {line.attempt !== shown[n - 1]?.attempt && maxAttempts > 1 && (
                <p className="mb-1 text-xs text-faint not-first:mt-2">Attempt {line.attempt}</p>
              )}
              <LogLine line={line} />
            </li>
          ))}
        </ol>
      )}
    </Card>
  )
}

function LogLine({ line: { at, level, message, fields } }: { readonly line: Line }): ReactElement {
  return (
    <div className="grid gap-x-3 sm:grid-cols-[auto_3.5rem_minmax(0,1fr)] sm:items-baseline">
      <span className="text-xs text-faint">
        <At at={at} />
      </span>
      <span>
        <Badge tone={TONES[level]}>{level}</Badge>
      </span>
      <span className="min-w-0 [overflow-wrap:anywhere] whitespace-pre-wrap">
        {message}
        {fields && <code className="ml-2 text-xs text-soft">{fieldWords(fields)}</code>}
      </span>
    </div>
  )
}

function fieldWords(fields: NonNullable<Line['fields']>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(' ')
}
