import { asError } from '../../base/thrown.ts'
import { storedError } from '../../engine/run/settle.ts'
import { jobOf, waitForCode } from './begin-step.ts'
import { UNDO } from './progress.ts'
import type { RunContext } from './run-context.ts'
import { CodeMissing } from './terms.ts'

/** How far the undoing of a flow is. `failed`: a step that could not be undone. */
export type Undoing =
  | { readonly kind: 'going on' | 'done' | 'nothing' }
  | { readonly kind: 'failed'; readonly step: string }

/**
 * Undoes the next step of a flow that has failed: of those that completed, the one that completed last. One that cannot
 * be undone ends it, since those before it may hang together with it.
 */
export async function undoNext(run: RunContext): Promise<Undoing> {
  const { progress } = run
  const steps = Object.entries(progress.form.steps).filter(([, { undo }]) => undo !== undefined)
  const order = new Map(steps.map(([name], i) => [name, i]))
  const completed = progress.records
    .filter(({ name, state }) => state === 'done' && order.has(name))
    .toSorted(
      (a, b) =>
        (b.finishedUs ?? 0) - (a.finishedUs ?? 0) || (order.get(b.name) as number) - (order.get(a.name) as number),
    )
  for (const { name } of completed) {
    const { state } = progress.record(UNDO + name) ?? {}
    if (state === 'done') continue
    if (state === 'failed' || !(await beginUndo(run, name))) return { kind: 'failed', step: name }
    return { kind: 'going on' }
  }
  return { kind: completed.length === 0 ? 'nothing' : 'done' }
}

async function beginUndo(run: RunContext, name: string): Promise<boolean> {
  const { progress } = run
  const record = UNDO + name
  const { undo } = progress.form.steps[name] ?? {}
  if (!undo) return false
  try {
    const seen = await run.seen([name])
    const job = await jobOf(run, `${name}/undo`, undo, run.code(name)?.undo ?? undefined, seen, null)
    progress.put({ name: record, state: 'open', startedUs: progress.nowUs })
    progress.spawned.push({ job, step: record, item: null, attempt: 0, delayUs: null })
  } catch (error) {
    if (!(error instanceof CodeMissing)) {
      progress.fail(record, storedError(asError(error)))
      return false
    }
    waitForCode(run, `${name}/undo`)
  }
  return true
}
