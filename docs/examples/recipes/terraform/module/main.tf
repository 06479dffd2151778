# A tenant's resources. Replace `terraform_data`, an example that needs no provider, with your own.

variable "tenant" {
  type = string
}

variable "step" {
  type = string
}

variable "arguments" {
  type = any
}

resource "terraform_data" "network" {
  input = {
    tenant = var.tenant
    vlan   = var.arguments.vlan
  }
}

output "step" {
  value = var.step
}

output "vlan" {
  value = terraform_data.network.output.vlan
}
