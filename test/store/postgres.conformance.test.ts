import { storeConformance } from '../conformance/store/suite.ts'
import { postgresHarness } from './postgres-harness.ts'
import { withPostgres } from './postgres-server.ts'

withPostgres("the store's contract on PostgreSQL", () => storeConformance(postgresHarness('PostgreSQL')))
