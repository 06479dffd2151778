# What a tenant gets. Put your resources here; `terraform_data` stands for one, and needs no provider.

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
