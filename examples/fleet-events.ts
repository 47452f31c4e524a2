// A program that runs no jobs hears those of the whole fleet. Run: npx node examples/fleet-events.ts
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { input, Sluice, task } from '../src/exports/index.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-fleet-'))
const store = `sqlite:${join(folder, 'jobs.db')}`
const mail = task('mail.send', input<{ to: string }>(), {
  retry: { attempts: 1 },
  run: ({ to }) => {
    if (!to.includes('@')) throw new Error(`${to} is no address`)
  },
})

// Usually these are two processes, and the listener has no tasks.
const worker = new Sluice({ store, tasks: [mail] })
const listener = new Sluice({ store, tasks: [] })

const heard = Promise.withResolvers<void>()
const off = listener.on(
  'job.discarded',
  ({ task: name, error }) => {
    console.log(`${name} was given up: ${error.message}`)
    heard.resolve()
  },
  { fleet: true },
)
listener.on('events.lost', ({ since }) => console.log('events may be missing since', since))
await off.ready

await worker.start()
await mail.enqueueMany([{ to: 'ann@example.com' }, { to: 'nowhere' }])
await heard.promise

off()
await worker.stop()
await listener.stop()
rmSync(folder, { recursive: true })
