// The commands that change many things at once, as their users start them: processes of their own on a left store.
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { JobView } from '../../src/engine/api/job-view.ts'
import { emptyStore, folder, sluice, storeWithSchedules, storeWithWaiting } from './terminal.ts'

async function jobs(url: string, ...args: string[]): Promise<JobView[]> {
  const { out } = await sluice(['jobs', ...args, '--json', '--store', url])
  return JSON.parse(out) as JobView[]
}

describe('sluice jobs', () => {
  it('counts, refuses to act without a yes, then changes all that match and nothing else', async () => {
    const { url, acme } = await storeWithWaiting()
    const filter = ['--filter', 'limit=crm', '--filter', 'key=acme', '--store', url]
    const counted = await sluice(['jobs', 'cancel', ...filter, '--dry-run', '--json'])
    expect(counted).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(counted.out)).toEqual({ matched: 3, changed: 0, stopped: false })
    const unasked = await sluice(['jobs', 'cancel', ...filter])
    expect(unasked).toMatchObject({ code: 2, out: '' })
    expect(unasked.err).toContain('Cancel 3 jobs? Add --yes')
    expect(await jobs(url, '--state', 'cancelled')).toEqual([])
    expect(await sluice(['jobs', 'cancel', ...filter, '--yes'])).toMatchObject({
      code: 0,
      out: '3 of 3 jobs were changed.\n',
    })
    expect((await jobs(url, '--state', 'cancelled')).map(({ id }) => id).toSorted()).toEqual(acme.toSorted())
    expect(await jobs(url, '--state', 'available')).toHaveLength(3)
    expect(await sluice(['jobs', 'cancel', ...filter, '--yes'])).toMatchObject({ code: 0, out: '0 jobs match.\n' })
    const [first] = acme
    const removed = await sluice(['jobs', 'delete', first as string, '--yes', '--json', '--store', url])
    expect(JSON.parse(removed.out)).toMatchObject({ changed: 1 })
    expect((await sluice(['jobs', first as string, '--store', url])).code).toBe(1)
  })

  it('moves, reprioritizes, promotes and reschedules', async () => {
    const { url, acme } = await storeWithWaiting()
    const id = acme[0] as string
    expect((await sluice(['jobs', 'move', 'other', '--queue', 'models', '--yes', '--store', url])).out).toContain(
      '2 of 2',
    )
    expect(await jobs(url, '--filter', 'queue=other')).toHaveLength(2)
    expect((await sluice(['jobs', 'reprioritize', '-5', id, '--yes', '--store', url])).out).toContain('1 of 1')
    expect((await jobs(url, '--filter', `id=${id}`)).map(({ priority }) => priority)).toEqual([-5])
    expect(await sluice(['jobs', 'reschedule', id, '2150-01-01T00:00:00Z', '--store', url])).toMatchObject({ code: 0 })
    expect(await jobs(url, '--state', 'scheduled')).toHaveLength(1)
    expect(await sluice(['jobs', 'promote', id, '--store', url])).toMatchObject({ code: 0 })
    expect(await jobs(url, '--state', 'scheduled')).toEqual([])
    await sluice(['jobs', 'cancel', id, '--yes', '--store', url])
    expect(await sluice(['jobs', 'promote', id, '--store', url])).toEqual({
      code: 1,
      out: '',
      err: `error job.not_waiting: The job ${id} does not wait for a time or for its turn.\n`,
    })
  })

  it.each([
    [['cancel', '--queue', '', '--yes'], '--queue is empty'],
    [['cancel', '--filter', 'task=', '--yes'], '--filter task= is empty'],
    [['cancel', '--yes'], 'the filter is empty'],
    [['cancel', '--filter', 'queu=a', '--yes'], 'did you mean queue?'],
    [['cancel', '--filter', 'queue', '--yes'], 'Expected name=value'],
    [['cancel', '--state', 'waiting', '--yes'], 'Expected scheduled'],
    [['retry', '--filter', 'since=yesterday', '--yes'], 'since is invalid'],
    [['cancel', '--watch', '--state', 'active'], 'watch'],
    [['--watch', 'cancel', '--state', 'active'], '--watch does not belong to jobs cancel'],
    [['reschedule', 'x', 'tomorrow'], 'Expected one with its zone'],
    [['move', 'No Queue', '--state', 'available', '--yes'], 'queue name is invalid'],
  ])('%j is a usage error', async (args, words) => {
    const { url } = await storeWithWaiting()
    const { code, out, err } = await sluice(['jobs', ...args], { env: { SLUICE_STORE: url } })
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(words)
  })

  it('says that there is no store', async () => {
    const url = `sqlite:${folder()}/none.db`
    expect((await sluice(['jobs', 'cancel', '--state', 'active', '--yes', '--store', url])).code).toBe(1)
  })
})

describe('sluice queues, workers and tasks', () => {
  it('look at queues, and pause, bound, drain and resume one', async () => {
    const { url } = await storeWithWaiting()
    const run = (...args: string[]): ReturnType<typeof sluice> => sluice(['queues', ...args, '--store', url])
    expect((await run()).out).toMatch(/^default +open +4 +0 +0 +0 +0$/m)
    expect((await run('pause', 'default')).out).toMatch(/^default +paused/m)
    expect((await run('bound', 'default', '10')).out).toMatch(/ 10 +0$/m)
    expect((await run('resume', 'default')).out).toMatch(/^default +open/m)
    expect(await run('drain', 'default', '--timeout', '0s')).toMatchObject({ code: 1 })
    expect((await run('pause', 'defautl')).err).toContain('queue.unknown')
    expect(await run('pause', 'defautl')).toMatchObject({ code: 1, out: '' })
    expect(await run('bound', 'default', '-1')).toMatchObject({ code: 2 })
    expect((await sluice(['workers', '--store', url])).out).toBe('No worker is on record.\n')
    expect((await sluice(['tasks', '--store', url])).out).toMatch(/^llm.ask +2 +0 +0 +3 +0 +0$/m)
  })
})

describe('sluice limits', () => {
  it('pauses, overrides, penalises, and ends that, with who and why', async () => {
    const { url } = await storeWithWaiting()
    const run = (...args: string[]): ReturnType<typeof sluice> => sluice(['limits', ...args, '--store', url])
    expect(
      await run('pause', 'crm', '--key', 'acme', '--until', '1h', '--reason', 'they asked', '--by', 'ann'),
    ).toEqual({
      code: 0,
      out: 'The limit crm for acme was changed.\n',
      err: '',
    })
    expect((await run('crm')).out).toMatch(/acme paused \(until .*by ann, they asked\)/)
    expect(await run('resume', 'crm', '--key', 'acme')).toMatchObject({ code: 0 })
    expect(await run('resume', 'crm', '--key', 'acme')).toMatchObject({ code: 1 })
    expect(await run('override', 'crm', '500/h')).toMatchObject({ code: 0, err: '' })
    expect((await run('crm')).out).toContain('all keys overridden')
    expect(await run('clear', 'crm')).toMatchObject({ code: 0 })
    expect(await run('penalize', 'llm', '10m')).toMatchObject({ code: 0, err: '' })
    expect(await run('pause', 'cmr')).toMatchObject({ code: 1, out: '' })
    expect(await run('pause', 'crm', '--until', 'soon')).toMatchObject({ code: 2 })
    for (const none of ['2030-02-31T00:00:00Z', '2030-01-31T12:00'])
      expect(await run('pause', 'crm', '--until', none)).toMatchObject({
        code: 2,
        err: expect.stringContaining(`The time "${none}" is invalid`) as string,
      })
    expect(await run('pause', 'crm', '--key=')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--key is empty') as string,
    })
    expect(await run('override', 'crm', 'much')).toMatchObject({ code: 2 })
    expect(await run('pause', 'crm', '--kye', 'a')).toMatchObject({ code: 2 })
  })
})

describe('sluice schedules', () => {
  it('removes a schedule, once', async () => {
    const url = await storeWithSchedules()
    const unasked = await sluice(['schedules', 'rm', 'daily', '--store', url])
    expect(unasked).toMatchObject({ code: 2, err: 'error cli.usage: Delete the schedule daily? Add --yes to do it.\n' })
    expect(await sluice(['schedules', 'rm', 'daily', '--yes', '--store', url])).toMatchObject({ code: 0 })
    expect(await sluice(['schedules', 'rm', 'daily', '--yes', '--store', url])).toEqual({
      code: 1,
      out: '',
      err: 'error schedule.unknown: No schedule daily is registered in this store; sluice schedules lists those that are.\n',
    })
    expect((await sluice(['schedules', '--store', url])).out).not.toContain('daily')
  })

  it('pauses a schedule and ends the pause, and an export carries the pause to another store', async () => {
    const url = await storeWithSchedules()
    const paused = await sluice(['schedules', 'pause', 'daily', '--store', url])
    expect(paused).toMatchObject({ code: 0, out: 'The schedule daily is paused.\n' })
    expect((await sluice(['schedules', 'daily', '--store', url])).out).toContain('paused')
    const file = join(folder(), 'paused.ndjson')
    expect(await sluice(['export', '--to', file, '--store', url])).toMatchObject({ code: 0 })
    const other = `sqlite:${join(folder(), 'other.db')}`
    await emptyStore(other)
    expect(await sluice(['import', file, '--yes', '--store', other])).toMatchObject({ code: 0 })
    const shown = await sluice(['schedules', 'daily', '--json', '--store', other])
    expect(JSON.parse(shown.out)).toMatchObject([{ name: 'daily', state: 'paused', nextAt: null }])
    const active = await sluice(['schedules', 'resume', 'daily', '--json', '--store', url])
    expect(JSON.parse(active.out)).toMatchObject({ name: 'daily', state: 'active' })
    expect(await sluice(['schedules', 'pause', 'dayly', '--store', url])).toMatchObject({ code: 1, out: '' })
  })
})
