import { describe, expect, test } from 'vitest'
import { HttpHarness, type Json } from './http-harness.ts'

/** The validators, as much of them as is used: their types need more than this project compiles with. */
interface Validators {
  readonly Validator: new () => { validate(document: unknown): Promise<object> }
  readonly createConfig: (config: object) => Promise<object>
  readonly lintFromString: (given: object) => Promise<readonly { readonly ruleId: string; readonly message: string }[]>
}

async function validators(): Promise<Validators> {
  const names = ['@seriousme/openapi-schema-validator', '@redocly/openapi-core']
  const [first, second] = (await Promise.all(names.map((name) => import(name)))) as [object, object]
  return { ...first, ...second } as Validators
}

const documentOf = async (): Promise<Json> => (await (await HttpHarness.open()).get('/openapi.json')).body

describe('the OpenAPI document', () => {
  test('is valid by two validators that know nothing of each other', async () => {
    const { Validator, createConfig, lintFromString } = await validators()
    const document = await documentOf()
    expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true })
    const config = await createConfig({ extends: ['spec'] })
    const source = JSON.stringify(document)
    const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config })
    expect(problems.map(({ ruleId, message }) => [ruleId, message])).toEqual([])
  })

  test('says of each operation what it answers, who may ask, and how refusals look', async () => {
    const document = await documentOf()
    const operations = Object.values(document['paths'] as Json).flatMap((path) => Object.values(path as Json)) as Json[]
    expect(operations.length).toBeGreaterThan(60)
    for (const { operationId, security, responses } of operations) {
      const success = Object.entries(responses as Json).find(([status]) => status.startsWith('2'))?.[1] as Json
      expect([operationId, Object.keys(success?.['content'] ?? {})]).not.toEqual([operationId, []])
      expect([operationId, Array.isArray(security)]).toEqual([operationId, true])
      expect((responses as Json)['default'].headers['Retry-After']).toBeDefined()
    }
    const byId = new Map(operations.map((each) => [each['operationId'], each]))
    for (const id of ['enqueueJob', 'fetchJobs', 'ackJob', 'nackJob']) {
      const body = byId.get(id)?.['requestBody'].content['application/openjobspec+json'] as Json
      expect(body['example']).toBeDefined()
    }
    for (const word of ['Retry-After', 'ETag', 'Cursors']) expect(document['info'].description).toContain(word)
  })

  test('has examples that the server takes', async () => {
    const d = await HttpHarness.open()
    const { body } = await d.get('/openapi.json')
    const example = (path: string): unknown =>
      (body['paths'] as Json)[path].post.requestBody.content['application/openjobspec+json'].example
    expect((await d.post('/ojs/v1/jobs', example('/ojs/v1/jobs'))).status).toBe(201)
    const fetched = await d.post('/ojs/v1/workers/fetch', example('/ojs/v1/workers/fetch'))
    expect(fetched.body['jobs']).toHaveLength(1)
    const ack = { ...(example('/ojs/v1/workers/ack') as Json), job_id: fetched.body['jobs'][0].id as string }
    expect((await d.post('/ojs/v1/workers/ack', ack)).status).toBe(200)
  })
})
