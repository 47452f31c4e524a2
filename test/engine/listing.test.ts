import { expect, it } from 'vitest'
import { Sluice } from '../../src/exports/index.ts'

it('a listing refuses options, states and limits that it does not know', async () => {
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [] })
  const refused = { code: 'option.invalid' }
  await expect(sluice.jobs.list({ state: 'active' } as never)).rejects.toMatchObject(refused)
  await expect(sluice.jobs.list({ states: ['running' as never] })).rejects.toMatchObject(refused)
  await expect(sluice.jobs.list({ limit: 0 })).rejects.toMatchObject(refused)
  await expect(sluice.jobs.list({ states: ['active'], limit: 1000 })).resolves.toEqual([])
  await sluice.stop()
})
