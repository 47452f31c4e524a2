// A backup that is taken while an engine works, restored elsewhere: docs/operate/deploy.md says how.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { workflow } from '../../src/exports/flows.ts'
import { dropSchema } from '../drop-schema.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('backups')

/** Backs a store up beside its work, and answers the address of a restored copy. */
async function restored(store: string): Promise<string> {
  if (store.startsWith('sqlite:')) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-backup-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const db = new DatabaseSync(store.slice('sqlite:'.length))
    db.exec(`VACUUM INTO '${folder}/copy.db'`)
    db.close()
    return `sqlite:${folder}/copy.db`
  }
  const url = new URL(store)
  const schema = url.searchParams.get('schema') as string
  url.search = ''
  const dump = execFileSync('pg_dump', ['--schema', schema, '--no-owner', '--dbname', url.toString()], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  })
  const copy = `${schema}_copy`
  const client = new Client({ connectionString: url.toString() })
  await client.connect()
  onTestFinished(async () => {
    await dropSchema(client, copy)
    await client.end()
  })
  execFileSync('psql', ['-q', '-v', 'ON_ERROR_STOP=1', '--dbname', url.toString()], {
    input: dump.replaceAll(new RegExp(`\\b${schema}\\b`, 'g'), copy),
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  url.searchParams.set('schema', copy)
  return url.toString()
}

test.each(stores)('a backup taken beside the work of an engine on $name goes on where it was taken', async (kind) => {
  const ran = new Map<string, number>()
  const note = (what: string): void => void ran.set(what, (ran.get(what) ?? 0) + 1)
  const slow = limit('slow', { rate: 1, per: '1h' })
  const make = () => {
    const plain = task('plain', input<{ n: number }>(), { run: ({ n }) => note(`plain ${n}`) })
    const held = task('held', input<{ n: number }>(), { limits: [slow], run: ({ n }) => note(`held ${n}`) })
    const order = workflow('order', input<{ n: number }>(), {
      signals: { pay: input<boolean>() },
      run: async ({ n }, flow) => {
        await flow.step('reserve', () => note(`reserve ${n}`))
        await flow.signal('pay')
        return flow.step('ship', () => note(`ship ${n}`))
      },
    })
    return { plain, held, order }
  }
  const store = kind.vacant()
  const first = make()
  const engine = new Sluice({ store, tasks: [first.plain, first.held], workflows: [first.order], logger: silentLogger })
  await engine.start()
  const flow = await first.order.start({ n: 1 })
  const done = await first.plain.enqueueMany(Array.from({ length: 50 }, (_, n) => ({ n })))
  await Promise.all(done.map((job) => job.result()))
  const waiting = await first.held.enqueueMany(Array.from({ length: 5 }, (_, n) => ({ n })))
  const later = await first.plain.enqueue({ n: 99 }, { delay: '1s' })
  await expect
    .poll(async () => (await engine.flows.inspect(flow.id))?.steps)
    .toContainEqual(expect.objectContaining({ name: 'reserve', state: 'done' }))
  const running = first.plain.enqueueMany(Array.from({ length: 500 }, (_, n) => ({ n: 100 + n })))
  const copy = await restored(store)
  await Promise.all((await running).map((job) => job.result()))
  await engine.stop()

  const second = make()
  const again = new Sluice({
    store: copy,
    tasks: [second.plain, second.held],
    workflows: [second.order],
    logger: silentLogger,
  })
  onTestFinished(() => again.stop())
  await again.start()
  await second.order.signal(flow.id, 'pay', true)
  await again.jobs.result(later.id)
  await again.jobs.result(flow.id)
  expect([ran.get('reserve 1'), ran.get('ship 1')]).toEqual([1, 1])
  // No job that was done runs again, and the spent budget is still spent.
  for (let n = 0; n < 50; n++) expect(ran.get(`plain ${n}`)).toBe(1)
  expect([...ran.keys()].filter((what) => what.startsWith('held'))).toHaveLength(1)
  const held = await Promise.all(waiting.map(({ id }) => again.jobs.explain(id)))
  expect(held.filter((each) => each?.waitsOn?.limit === 'slow')).toHaveLength(4)
})
