import { toJsonText } from '../../base/json-value.ts'
import { asError } from '../../base/thrown.ts'
import { storedError } from '../../engine/run/settle.ts'
import { validate } from '../../jobs/schema.ts'
import { valueOf } from '../shared/records.ts'
import type { RunContext } from './run-context.ts'

/** Ends sleeps that are over, and waits for signals that have come or are given up. */
export async function endWaits(run: RunContext): Promise<void> {
  for (const name of Object.keys(run.progress.form.steps)) await endWait(run, name)
}

/** Ends the wait of one step, if it waits and that is over. */
export async function endWait(run: RunContext, name: string): Promise<void> {
  const { progress } = run
  const { state, dueUs = null } = progress.record(name) ?? {}
  if (state !== 'awaiting' && state !== 'sleeping') return
  const { signal } = progress.form.steps[name] ?? {}
  const at = state === 'awaiting' ? progress.unread.findIndex((each) => each.name === signal) : -1
  const [found] = at < 0 ? [] : progress.unread.splice(at, 1)
  if (found) {
    progress.consumed.push(found.seq)
    await takeSignal(run, name, found.payload)
  } else if (dueUs !== null && dueUs <= progress.nowUs) progress.finish(name, 'null')
}

async function takeSignal(run: RunContext, name: string, payload: string): Promise<void> {
  const schema = run.code(name)?.payload
  try {
    const value = schema ? await validate(schema, valueOf(payload), `the signal ${name}`) : valueOf(payload)
    run.progress.finish(name, toJsonText(value, `the signal ${name}`))
  } catch (error) {
    run.progress.fail(name, storedError(asError(error)))
  }
}
